// Shared memory is one dynamic array; each collective says how much of it it uses, from the start.
#pragma once

#ifndef GR_SHARED
extern __shared__ __align__(16) unsigned char gr_shared_bytes[];
#define GR_SHARED gr_shared_bytes
#endif
