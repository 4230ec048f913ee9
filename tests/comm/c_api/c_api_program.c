/* For c_api_test.sh: what the C interface reports when something is wrong, and joining through the environment.
 *
 *   c_api_program mismatch   ranks disagree about the count
 *   c_api_program died       rank 1 exits in the middle
 *   c_api_program usage      impossible requests
 *   c_api_program memory     collectives on shared memory
 *   c_api_program join       joins by TRIREME_RANK, …; prints the sum of all ranks */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/trireme.h>

#define REQUIRE(condition)                                                                 \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      printf("line %d: %s; last error: %s\n", __LINE__, #condition, trireme_last_error()); \
      return 1;                                                                            \
    }                                                                                      \
  } while (0)

static int mismatch(trireme_world* world, void* context) {
  (void)context;
  trireme_group* all = trireme_all(world);
  float values[8] = {0};
  const size_t count = trireme_rank(all) == 2 ? 7 : 8;
  REQUIRE(trireme_allreduce(all, values, values, count, TRIREME_F32, TRIREME_SUM, NULL) ==
          TRIREME_PEER_MISMATCH);
  REQUIRE(strstr(trireme_last_error(), "rank 2") != NULL);
  REQUIRE(trireme_barrier(all) == TRIREME_PEER_DEAD);
  trireme_group* again = NULL;
  REQUIRE(trireme_shrink(all, &again) == TRIREME_OK);
  REQUIRE(trireme_size(again) == 4);
  REQUIRE(trireme_barrier(again) == TRIREME_OK);
  trireme_group_free(again);
  return 0;
}

static int died(trireme_world* world, void* context) {
  (void)context;
  trireme_group* all = trireme_all(world);
  if (trireme_rank(all) == 1) {
    _Exit(0);
  }
  double value = 1;
  trireme_pending* sum = NULL;
  REQUIRE(trireme_allreduce(all, &value, &value, 1, TRIREME_F64, TRIREME_SUM, &sum) == TRIREME_OK);
  const trireme_status status = trireme_wait(sum);
  REQUIRE(status == TRIREME_PEER_DIED || status == TRIREME_PEER_DEAD);
  int culprits[4] = {-1, -1, -1, -1};
  REQUIRE(trireme_last_culprits(culprits, 4) >= 1);
  REQUIRE(culprits[0] == 1);
  trireme_group* rest = NULL;
  REQUIRE(trireme_shrink(all, &rest) == TRIREME_OK);
  REQUIRE(trireme_size(rest) == 3);
  REQUIRE(trireme_allreduce(rest, &value, &value, 1, TRIREME_F64, TRIREME_SUM, NULL) == TRIREME_OK);
  trireme_group_free(rest);
  printf("survived\n");
  return 0;
}

static int usage(void) {
  trireme_world* world = NULL;
  REQUIRE(trireme_init(NULL, &world) == TRIREME_OK); /* alone */
  trireme_group* all = trireme_all(world);
  REQUIRE(trireme_rank(all) == 0 && trireme_size(all) == 1);
  float value = 3;
  REQUIRE(trireme_broadcast(NULL, &value, 1, TRIREME_F32, 0, NULL) == TRIREME_USAGE);
  REQUIRE(trireme_broadcast(all, &value, 1, (trireme_dtype)99, 0, NULL) == TRIREME_USAGE);
  REQUIRE(trireme_allreduce(all, &value, &value, 1, TRIREME_F32, (trireme_reduction)99, NULL) ==
          TRIREME_USAGE);
  REQUIRE(trireme_allgatherv(all, &value, &value, NULL, TRIREME_F32, NULL) == TRIREME_USAGE);
  REQUIRE(trireme_broadcast(all, &value, SIZE_MAX / 2, TRIREME_F64, 0, NULL) == TRIREME_USAGE);
  REQUIRE(trireme_broadcast(all, &value, 1, TRIREME_F32, 9, NULL) == TRIREME_USAGE);
  REQUIRE(trireme_last_error()[0] != '\0');
  for (int status = TRIREME_OK; status <= TRIREME_BUG; ++status) {
    REQUIRE(strcmp(trireme_status_text((trireme_status)status), "unknown status") != 0);
  }
  trireme_finalize(world);
  trireme_finalize(NULL);
  return 0;
}

static int memory(trireme_world* world, void* context) {
  (void)context;
  trireme_group* all = trireme_all(world);
  void* shared = NULL;
  REQUIRE(trireme_allocate(world, 1000 * sizeof(float), &shared) == TRIREME_OK);
  float* values = shared;
  REQUIRE(values[999] == 0);
  values[999] = (float)trireme_rank(all);
  REQUIRE(trireme_allreduce(all, values, values, 1000, TRIREME_F32, TRIREME_SUM, NULL) ==
          TRIREME_OK);
  REQUIRE(values[999] == 6);
  trireme_free(world, shared);
  return 0;
}

static int join(void) {
  trireme_world* world = NULL;
  REQUIRE(trireme_init(getenv, &world) == TRIREME_OK);
  int64_t rank = trireme_rank(trireme_all(world));
  REQUIRE(trireme_allreduce(trireme_all(world), &rank, &rank, 1, TRIREME_I64, TRIREME_SUM, NULL) ==
          TRIREME_OK);
  printf("%d ranks, sum %lld\n", trireme_size(trireme_all(world)), (long long)rank);
  trireme_finalize(world);
  return 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "mismatch") == 0)
    return trireme_launch(4, mismatch, NULL);
  if (strcmp(what, "died") == 0)
    return trireme_launch(4, died, NULL);
  if (strcmp(what, "memory") == 0)
    return trireme_launch(4, memory, NULL);
  if (strcmp(what, "usage") == 0)
    return usage();
  if (strcmp(what, "join") == 0)
    return join();
  printf("unknown case '%s'\n", what);
  return 2;
}
