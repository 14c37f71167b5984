// Everything that reductions of groups are made of.
#pragma once
#include "reduce.cuh"
#include "contiguous.cuh"
#include "bins/atomic.cuh"
#include "bins/best.cuh"
#include "bins/exact.cuh"
#include "bins/histogram.cuh"
#include "bins/pieces.cuh"
#include "bins/private.cuh"
#include "bins/rows.cuh"
#include "bins/sort.cuh"
#include "bins/tiles.cuh"
#include "bins/window.cuh"
