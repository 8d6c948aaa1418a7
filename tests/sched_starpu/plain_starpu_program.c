/* SPDX-License-Identifier: Apache-2.0
 * A program on StarPU that knows nothing of this project: rounds of tasks over vectors, some of
 * them with a performance model named "plain_...". Prints the policy that ran and, if every task
 * ran once and in the order of its data, "ok". */
#include <starpu.h>
#include <stdio.h>

enum { kVectors = 20, kRounds = 5, kLength = 1000 };

static void add_one(void* buffers[], void* argument) {
  float* x = (float*)STARPU_VECTOR_GET_PTR(buffers[0]);
  (void)argument;
  for (unsigned i = 0; i < STARPU_VECTOR_GET_NX(buffers[0]); ++i) x[i] += 1;
}

static void two_times(void* buffers[], void* argument) {
  float* x = (float*)STARPU_VECTOR_GET_PTR(buffers[0]);
  (void)argument;
  for (unsigned i = 0; i < STARPU_VECTOR_GET_NX(buffers[0]); ++i) x[i] *= 2;
}

static struct starpu_perfmodel model = {.type = STARPU_HISTORY_BASED, .symbol = "plain_add"};
static struct starpu_codelet add_codelet = {
    .cpu_funcs = {add_one}, .nbuffers = 1, .modes = {STARPU_RW}, .model = &model};
static struct starpu_codelet double_codelet = {
    .cpu_funcs = {two_times}, .nbuffers = 1, .modes = {STARPU_RW}};

int main(void) {
  static float vectors[kVectors][kLength];
  starpu_data_handle_t handles[kVectors];
  int wrong = 0;
  if (starpu_init(NULL) != 0) return 77;
  for (int i = 0; i < kVectors; ++i)
    starpu_vector_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t)vectors[i], kLength,
                                sizeof(float));
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kVectors; ++i) {
      if (starpu_task_insert(&add_codelet, STARPU_RW, handles[i], STARPU_PRIORITY, i % 3, 0) != 0 ||
          starpu_task_insert(&double_codelet, STARPU_RW, handles[i], 0) != 0)
        return 1;
    }
    starpu_task_wait_for_all();
  }
  for (int i = 0; i < kVectors; ++i) starpu_data_unregister(handles[i]);
  printf("policy %s\n", starpu_sched_get_sched_policy()->policy_name);
  starpu_shutdown();
  /* x -> 2 (x + 1), five times from 0. */
  for (int i = 0; i < kVectors; ++i)
    for (int j = 0; j < kLength; ++j) wrong += vectors[i][j] != 62;
  printf("%s\n", wrong == 0 ? "ok" : "wrong");
  return wrong != 0;
}
