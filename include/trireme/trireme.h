/* Trireme's collectives and messages for C (C11 or later) and for languages that call C. The functions are those of
 * comm.h; docs/comm.md describes what they guarantee.
 *
 *   #include <stdlib.h>
 *   #include <trireme/trireme.h>
 *
 *   int main(void) {                                      // started by mpirun, srun or torchrun
 *     trireme_world* world;
 *     if (trireme_init(getenv, &world) != TRIREME_OK) return 1;
 *     float gradient[1000] = {1};
 *     trireme_allreduce(trireme_all(world), gradient, gradient, 1000, TRIREME_F32, TRIREME_SUM, NULL);
 *     trireme_finalize(world);
 *   }
 *
 * Errors. A function that can fail returns a status; trireme_last_error() then has one line that names the operation,
 * the ranks and what each did. After a TRIREME_PEER_… status the group has failed: every later call on it returns
 * TRIREME_PEER_DEAD until trireme_shrink() makes a new one.
 *
 * Threads. One thread at a time may call a world and its groups.
 *
 * Asynchronous calls. With a non-NULL `pending`, an operation is started and the function returns at once; pass what it
 * stored to trireme_wait(). The buffers must not be touched until then. With NULL the function returns when this rank's
 * result is ready.
 *
 * Buffers. `count` counts elements of `dtype`. An input and an output do not overlap, or they are the same memory ("in
 * place"); where a rank's block is part of a longer buffer, in place means that it is where it belongs in there. */
#pragma once

/* A C header: C has no <cstddef>. */
#include <stddef.h> /* NOLINT(modernize-deprecated-headers) */
#include <stdint.h> /* NOLINT(modernize-deprecated-headers) */

/* In C++ an enum without a fixed type must not even hold a value that it does not name; a caller in C may pass one, and
 * gets TRIREME_USAGE. */
#ifdef __cplusplus
#define TRIREME_ENUM_TYPE : int
extern "C" {
#else
#define TRIREME_ENUM_TYPE
#endif

/* C names, and typedefs, which C needs. NOLINTBEGIN(readability-identifier-naming, modernize-use-using) */

typedef struct trireme_world trireme_world;     /* this rank's view of a job */
typedef struct trireme_group trireme_group;     /* ranks that run collectives together */
typedef struct trireme_pending trireme_pending; /* an operation in flight */

typedef enum trireme_status TRIREME_ENUM_TYPE {
  TRIREME_OK = 0,
  TRIREME_USAGE,         /* the request is impossible: root 9 of 4 ranks */
  TRIREME_INPUT,         /* a text or file is malformed */
  TRIREME_SYSTEM,        /* the machine refused: memory is short, an address is in use */
  TRIREME_PEER_MISMATCH, /* ranks made different calls */
  TRIREME_PEER_DIED,     /* a rank's process ended without leaving */
  TRIREME_PEER_STOPPED,  /* a rank was silent for longer than the deadline */
  TRIREME_PEER_LEFT,     /* a rank left the world while others were waiting for it */
  TRIREME_PEER_LATE,     /* a rank is alive but did not reach the operation in time */
  TRIREME_PEER_CORRUPT,  /* the bytes received are not the bytes sent */
  TRIREME_PEER_DEAD,     /* the group failed earlier; shrink it */
  TRIREME_PEER,          /* another rank is at fault in some other way: it did not join */
  TRIREME_BUG            /* a violated invariant inside Trireme: please report it */
} trireme_status;

typedef enum trireme_dtype TRIREME_ENUM_TYPE {
  TRIREME_F32,
  TRIREME_F64,
  TRIREME_F16,
  TRIREME_BF16,
  TRIREME_I8,
  TRIREME_U8,
  TRIREME_I32,
  TRIREME_I64
} trireme_dtype;

/* TRIREME_AVERAGE is the sum divided by the number of ranks. The bitwise ones are for integers. */
typedef enum trireme_reduction TRIREME_ENUM_TYPE {
  TRIREME_SUM,
  TRIREME_PRODUCT,
  TRIREME_MIN,
  TRIREME_MAX,
  TRIREME_AVERAGE,
  TRIREME_BIT_AND,
  TRIREME_BIT_OR,
  TRIREME_BIT_XOR
} trireme_reduction;

/* Errors. */

/* "a rank died", …; never NULL. */
const char* trireme_status_text(trireme_status status);
/* What the last call that failed on this thread reported; "" if none has. Valid until the next call on this thread. */
const char* trireme_last_error(void);
/* Stores up to `capacity` of the world ranks at fault in the last failed call on this thread, and returns how many there
 * are. */
int trireme_last_culprits(int* ranks, int capacity);

/* Worlds. */

/* Joins the job that torchrun, mpirun, srun or TRIREME_RANK, TRIREME_SIZE, TRIREME_STORE and TRIREME_SECRET describe; a
 * world of one rank if nothing does. `variable` looks up an environment variable: pass getenv. Returns when all ranks
 * have joined. */
trireme_status trireme_init(char* (*variable)(const char* name), trireme_world** world);
/* Leaves the world, frees it and ends its operations in flight. Never waits longer than the deadline. NULL is allowed.
 * Its groups other than trireme_all() must have been freed. */
void trireme_finalize(trireme_world* world);

/* Runs `body` in `ranks` processes on this host, forked from this one, and waits for all. Call it before creating any
 * thread. Returns 0 if every rank returned 0, else 1; writes each rank's error to standard error. `body` must not
 * finalize the world. */
int trireme_launch(int ranks, int (*body)(trireme_world* world, void* context), void* context);

/* The group of all ranks. It belongs to the world: do not free it. */
trireme_group* trireme_all(trireme_world* world);

/* Zeroed memory that all ranks of this host can access, so that collectives on it copy as little as possible. */
trireme_status trireme_allocate(trireme_world* world, size_t bytes, void** memory);
/* `memory` is from trireme_allocate() on this world, or NULL. */
void trireme_free(trireme_world* world, void* memory);

/* Groups. */

int trireme_rank(const trireme_group* group); /* this rank's place in the group */
int trireme_size(const trireme_group* group);

/* New groups, one per color; ranks are ordered by key, then by their rank. Every rank of the group calls it. */
trireme_status trireme_split(trireme_group* group, int64_t color, int64_t key,
                             trireme_group** result);
/* The group of these ranks of the group, in this order. Only those ranks call it. */
trireme_status trireme_subset(trireme_group* group, const int* ranks, int count,
                              trireme_group** result);
/* A working group of the survivors of a failure; every survivor calls it. */
trireme_status trireme_shrink(trireme_group* group, trireme_group** result);
/* Of a group that split, subset or shrink made. NULL is allowed. */
void trireme_group_free(trireme_group* group);

/* Collectives. All ranks of a group make the same calls in the same order. */

/* Every rank's buffer becomes a copy of the root's. */
trireme_status trireme_broadcast(trireme_group* group, void* buffer, size_t count,
                                 trireme_dtype dtype, int root, trireme_pending** pending);
/* The root gets the combination of all inputs; elsewhere `output` may be NULL. */
trireme_status trireme_reduce(trireme_group* group, const void* input, void* output, size_t count,
                              trireme_dtype dtype, trireme_reduction reduction, int root,
                              trireme_pending** pending);
/* Every rank gets the combination of all inputs. */
trireme_status trireme_allreduce(trireme_group* group, const void* input, void* output,
                                 size_t count, trireme_dtype dtype, trireme_reduction reduction,
                                 trireme_pending** pending);

/* For the five that follow, `count` is the elements of one block: rank r's block is the r-th of the longer buffer. */

/* Rank r gets block r of the root's input; elsewhere `input` may be NULL. */
trireme_status trireme_scatter(trireme_group* group, const void* input, void* output, size_t count,
                               trireme_dtype dtype, int root, trireme_pending** pending);
/* The root gets all inputs, in rank order; elsewhere `output` may be NULL. */
trireme_status trireme_gather(trireme_group* group, const void* input, void* output, size_t count,
                              trireme_dtype dtype, int root, trireme_pending** pending);
/* Every rank gets all inputs, in rank order. */
trireme_status trireme_allgather(trireme_group* group, const void* input, void* output,
                                 size_t count, trireme_dtype dtype, trireme_pending** pending);
/* Rank r gets block r of the combination of all inputs. */
trireme_status trireme_reduce_scatter(trireme_group* group, const void* input, void* output,
                                      size_t count, trireme_dtype dtype,
                                      trireme_reduction reduction, trireme_pending** pending);
/* Block d of rank s's input becomes block s of rank d's output. */
trireme_status trireme_alltoall(trireme_group* group, const void* input, void* output, size_t count,
                                trireme_dtype dtype, trireme_pending** pending);

/* The same with blocks of counts[r] elements, r = 0 … size - 1, the same on all ranks. */
trireme_status trireme_scatterv(trireme_group* group, const void* input, void* output,
                                const size_t* counts, trireme_dtype dtype, int root,
                                trireme_pending** pending);
trireme_status trireme_gatherv(trireme_group* group, const void* input, void* output,
                               const size_t* counts, trireme_dtype dtype, int root,
                               trireme_pending** pending);
trireme_status trireme_allgatherv(trireme_group* group, const void* input, void* output,
                                  const size_t* counts, trireme_dtype dtype,
                                  trireme_pending** pending);
trireme_status trireme_reduce_scatterv(trireme_group* group, const void* input, void* output,
                                       const size_t* counts, trireme_dtype dtype,
                                       trireme_reduction reduction, trireme_pending** pending);
/* What this rank sends to each, and what it receives from each. Not in place. */
trireme_status trireme_alltoallv(trireme_group* group, const void* input, const size_t* send_counts,
                                 void* output, const size_t* receive_counts, trireme_dtype dtype,
                                 trireme_pending** pending);

/* Returns when all ranks have called it. */
trireme_status trireme_barrier(trireme_group* group);

/* Messages between two ranks. A message matches the receive with its source and tag; the lengths must be equal. */

trireme_status trireme_send(trireme_group* group, const void* data, size_t count,
                            trireme_dtype dtype, int to, int32_t tag, trireme_pending** pending);
trireme_status trireme_receive(trireme_group* group, void* data, size_t count, trireme_dtype dtype,
                               int from, int32_t tag, trireme_pending** pending);

/* Operations in flight. */

/* 1 if trireme_wait() would return at once, else 0. */
int trireme_done(const trireme_pending* pending);
/* Returns when the operation completes, with its status, and frees `pending`. NULL is complete. */
trireme_status trireme_wait(trireme_pending* pending);

/* NOLINTEND(readability-identifier-naming, modernize-use-using) */

#ifdef __cplusplus
} /* extern "C" */
#endif
