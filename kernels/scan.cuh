// Everything a scan is made of.
#pragma once
#include "reduce.cuh"
#include "scan/any_all.cuh"
#include "scan/cluster_columns.cuh"
#include "scan/columns.cuh"
#include "scan/contiguous_columns.cuh"
#include "scan/rows.cuh"
#include "scan/small_lines.cuh"
#include "scan/subwarp_lines.cuh"
#include "scan/thread_lines.cuh"
