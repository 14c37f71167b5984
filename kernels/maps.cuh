// Everything that kernels of maps are made of: functions of elements, fused with a reduction or a scan.
#pragma once
#include "scan.cuh"
#include "monoid/mapped.cuh"
#include "monoid/weighted.cuh"
