// Everything that a kernel of maps is made of, whether it reduces or scans.
#pragma once
#include "scan.cuh"
#include "monoid/mapped.cuh"
#include "monoid/weighted.cuh"
