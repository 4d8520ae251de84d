// SPDX-License-Identifier: Apache-2.0
// MW_DEVICE marks a function that kernels of the processor and of the device share: g++ compiles it as an inline
// function, nvcc for the device alone. Internal to kernels.
#pragma once

#ifdef __CUDACC__
#define MW_DEVICE __device__ inline
#else
#define MW_DEVICE inline
#endif
