// Everything a reduction is made of: what the launch layer compiles and the CPU shim runs.
#pragma once
#include "monoid/arg.cuh"
#include "monoid/logical.cuh"
#include "monoid/moments.cuh"
#include "monoid/products.cuh"
#include "monoid/sums.cuh"
#include "grid/cells.cuh"
#include "grid/columns.cuh"
#include "grid/even_rows.cuh"
#include "grid/flat_columns.cuh"
#include "grid/ordered.cuh"
#include "grid/rows.cuh"
#include "grid/staged.cuh"
