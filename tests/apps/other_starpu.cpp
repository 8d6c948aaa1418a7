// SPDX-License-Identifier: Apache-2.0
// Loaded before StarPU, it makes StarPU say that it is of another version, one that never was.

extern "C" void starpu_get_version(int* major, int* minor, int* release) {
  *major = 1;
  *minor = 99;
  *release = 3;
}
