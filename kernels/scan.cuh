// Everything a scan is made of.
#pragma once
#include "reduce.cuh"
#include "scan/abreast.cuh"
#include "scan/braid.cuh"
#include "scan/columns.cuh"
#include "scan/lines.cuh"
#include "scan/methods.cuh"
#include "scan/planes.cuh"
#include "scan/rows.cuh"
#include "scan/short.cuh"
#include "scan/strands.cuh"
#include "scan/teams.cuh"
#include "scan/until.cuh"
