// Everything a scan is made of.
#pragma once
#include "reduce.cuh"
#include "scan/lines.cuh"
#include "scan/rows.cuh"
