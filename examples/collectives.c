/* All operations of the C interface on four processes, each result checked. */
#include <stdio.h>
#include <trireme/trireme.h>

enum { kRanks = 4 };

static int failures = 0;

static void check(trireme_status status, const char* what) {
  if (status != TRIREME_OK) {
    printf("%s: %s: %s\n", what, trireme_status_text(status), trireme_last_error());
    ++failures;
  }
}
static void expect(long long got, long long wanted, const char* what) {
  if (got != wanted) {
    printf("%s: %lld instead of %lld\n", what, got, wanted);
    ++failures;
  }
}

/* Rank r contributes r to reductions: the sum is 0 + 1 + 2 + 3. */
static void reductions(trireme_group* all) {
  int32_t own[kRanks];
  int32_t sum[kRanks];
  for (int i = 0; i < kRanks; ++i)
    own[i] = trireme_rank(all);
  check(trireme_allreduce(all, own, sum, kRanks, TRIREME_I32, TRIREME_SUM, NULL), "allreduce");
  expect(sum[kRanks - 1], 6, "allreduce");
  check(trireme_reduce(all, own, sum, kRanks, TRIREME_I32, TRIREME_MAX, 0, NULL), "reduce");
  if (trireme_rank(all) == 0)
    expect(sum[0], 3, "reduce");
  check(trireme_reduce_scatter(all, own, sum, 1, TRIREME_I32, TRIREME_SUM, NULL), "reduce_scatter");
  expect(sum[0], 6, "reduce_scatter");
}

/* Block b of the buffers of rank r has 10 r + b. */
static void blocks(trireme_group* all) {
  const int rank = trireme_rank(all);
  int64_t in[kRanks];
  int64_t out[kRanks] = {0};
  for (int b = 0; b < kRanks; ++b)
    in[b] = 10 * rank + b;
  check(trireme_alltoall(all, in, out, 1, TRIREME_I64, NULL), "alltoall");
  expect(out[3], 30 + rank, "alltoall");
  check(trireme_scatter(all, in, out, 1, TRIREME_I64, 1, NULL), "scatter");
  expect(out[0], 10 + rank, "scatter");
  check(trireme_allgather(all, in, out, 1, TRIREME_I64, NULL), "allgather");
  expect(out[2], 20, "allgather");
  check(trireme_gather(all, in, out, 1, TRIREME_I64, 3, NULL), "gather");
  if (rank == 3)
    expect(out[1], 10, "gather");
  check(trireme_broadcast(all, in, kRanks, TRIREME_I64, 2, NULL), "broadcast");
  expect(in[0], 20, "broadcast");
}

/* Blocks of 0, 1, 2 and 3 elements. */
static void uneven_blocks(trireme_group* all) {
  const size_t counts[kRanks] = {0, 1, 2, 3};
  const size_t rank = (size_t)trireme_rank(all);
  double own[3] = {(double)rank, (double)rank, (double)rank};
  double whole[6] = {0};
  check(trireme_allgatherv(all, own, whole, counts, TRIREME_F64, NULL), "allgatherv");
  expect((long long)whole[2], 2, "allgatherv");
  check(trireme_reduce_scatterv(all, whole, own, counts, TRIREME_F64, TRIREME_AVERAGE, NULL),
        "reduce_scatterv");
  if (rank > 0)
    expect((long long)own[0], (long long)rank, "reduce_scatterv");
  check(trireme_gatherv(all, own, whole, counts, TRIREME_F64, 0, NULL), "gatherv");
  check(trireme_scatterv(all, whole, own, counts, TRIREME_F64, 0, NULL), "scatterv");
  if (rank > 0)
    expect((long long)own[0], (long long)rank, "scatterv");

  /* Rank s sends d elements to each rank d, and so rank d receives d from each. */
  const size_t from_each[kRanks] = {rank, rank, rank, rank};
  double received[12] = {0};
  check(trireme_alltoallv(all, whole, counts, received, from_each, TRIREME_F64, NULL), "alltoallv");
}

/* Half of the ranks in a group of their own, twice; an operation in flight. */
static void groups(trireme_group* all) {
  const int rank = trireme_rank(all);
  trireme_group* half = NULL;
  check(trireme_split(all, rank % 2, 0, &half), "split");
  expect(trireme_size(half), 2, "split");
  float value = (float)rank;
  trireme_pending* sum = NULL;
  check(trireme_allreduce(half, &value, &value, 1, TRIREME_F32, TRIREME_SUM, &sum), "start");
  check(trireme_wait(sum), "wait");
  expect((long long)value, rank % 2 == 0 ? 2 : 4, "allreduce of half");
  trireme_group_free(half);

  const int backwards[] = {2 + rank % 2, rank % 2}; /* ranks 3 and 1, or 2 and 0 */
  check(trireme_subset(all, backwards, 2, &half), "subset");
  expect(trireme_rank(half), rank > 1 ? 0 : 1, "rank in subset");
  trireme_group_free(half);
}

/* Between neighbors, with a send in flight. */
static void messages(trireme_group* all) {
  const int rank = trireme_rank(all);
  const int to = (rank + 1) % kRanks;
  const int from = (rank + kRanks - 1) % kRanks;
  int32_t received = -1;
  trireme_pending* sent = NULL;
  check(trireme_send(all, &rank, 1, TRIREME_I32, to, 7, &sent), "send");
  check(trireme_receive(all, &received, 1, TRIREME_I32, from, 7, NULL), "receive");
  expect(received, from, "receive");
  while (!trireme_done(sent)) { /* the work of this rank could be here */
  }
  check(trireme_wait(sent), "wait for send");
  check(trireme_barrier(all), "barrier");
}

static int body(trireme_world* world, void* context) {
  (void)context;
  trireme_group* all = trireme_all(world);
  reductions(all);
  blocks(all);
  uneven_blocks(all);
  groups(all);
  messages(all);
  if (trireme_rank(all) == 0 && failures == 0) {
    printf("%d ranks: all operations give the expected results\n", trireme_size(all));
  }
  return failures;
}

int main(void) {
  return trireme_launch(kRanks, body, NULL);
}
