// SPDX-License-Identifier: Apache-2.0
// A CUDA driver for machines without one, as a library of its name: all it is asked for succeeds
// and does nothing. cuDNN makes its plans with it where there is no GPU (attention_cudnn_test.cpp).
#include <cstring>

extern "C" {

// Those that cuDNN 9 looks up by name; CUDA's runtime library asks cuGetProcAddress.
#define SUCCEEDS(name) \
  int name() {         \
    return 0;          \
  }

SUCCEEDS(cuCtxGetCurrent)
SUCCEEDS(cuCtxGetDevice)
SUCCEEDS(cuCtxGetLimit)
SUCCEEDS(cuCtxPopCurrent)
SUCCEEDS(cuCtxPushCurrent)
SUCCEEDS(cuDeviceGet)
SUCCEEDS(cuDeviceGetAttribute)
SUCCEEDS(cuDevicePrimaryCtxRelease)
SUCCEEDS(cuDevicePrimaryCtxReset)
SUCCEEDS(cuDevicePrimaryCtxRetain)
SUCCEEDS(cuFuncGetAttribute)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuGetErrorName)
SUCCEEDS(cuGetErrorString)
SUCCEEDS(cuInit)
SUCCEEDS(cuKernelGetAttribute)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuLaunchCooperativeKernel)
SUCCEEDS(cuLaunchKernel)
SUCCEEDS(cuLaunchKernelEx)
SUCCEEDS(cuLibraryLoadFromFile)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuLinkAddData)
SUCCEEDS(cuLinkAddData_v2)
SUCCEEDS(cuLinkAddFile_v2)
SUCCEEDS(cuLinkComplete)
SUCCEEDS(cuLinkCreate)
SUCCEEDS(cuLinkCreate_v2)
SUCCEEDS(cuLinkDestroy)
SUCCEEDS(cuMemcpyDtoH_v2)
SUCCEEDS(cuModuleGetFunction)
SUCCEEDS(cuModuleGetGlobal_v2)
SUCCEEDS(cuModuleLoadData)
SUCCEEDS(cuModuleLoadDataEx)
SUCCEEDS(cuModuleLoadFatBinary)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
SUCCEEDS(cuOccupancyMaxPotentialClusterSize)
SUCCEEDS(cuStreamGetCtx)
SUCCEEDS(cuStreamSynchronize)
SUCCEEDS(cuTensorMapEncodeTiled)
#undef SUCCEEDS

int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuLibraryLoadData(void** library) {
  static int object;
  *library = &object;
  return 0;
}

int cuLibraryGetKernel(void** kernel) {
  return cuLibraryLoadData(kernel);
}

int cuGetExportTable() {
  return 500;  // CUDA_ERROR_NOT_FOUND
}

int cuGetProcAddress(const char* name, void** address) {
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  *address = is("cuGetProcAddress")     ? reinterpret_cast<void*>(&cuGetProcAddress)
             : is("cuDriverGetVersion") ? reinterpret_cast<void*>(&cuDriverGetVersion)
             : is("cuDeviceGetCount")   ? reinterpret_cast<void*>(&cuDeviceGetCount)
             : is("cuGetExportTable")   ? reinterpret_cast<void*>(&cuGetExportTable)
                                        : reinterpret_cast<void*>(&cuInit);
  return 0;
}

int cuGetProcAddress_v2(const char* name, void** address) {
  return cuGetProcAddress(name, address);
}
}
