// Master and workers as real processes that are slow, killed and stopped.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "shared.h"
#include "train/samples.h"
#include "trireme/sampler.h"

namespace trireme {
namespace {

using std::chrono::microseconds;

constexpr Rank kRanks = 5;  ///< the last is the master
constexpr Rank kMaster = kRanks - 1;
constexpr std::int64_t kSamples = 400;
constexpr std::int64_t kBatch = 7;

/// What the processes record, in shared memory.
struct Notes {
  /// By sample: how often the master counted it, and how often a worker's confirm() returned for it.
  std::array<std::atomic<int>, kSamples> counted{};
  std::array<std::atomic<int>, kSamples> confirmed{};
  std::array<std::atomic<std::int64_t>, kRanks> consumed{};  ///< by rank, as the master reports it
  std::array<std::atomic<bool>, kRanks> finished{};          ///< the rank finished
  std::array<std::atomic<bool>, kRanks> failed{};            ///< with a CommError
  std::atomic<std::int64_t> left_over{-1};
  std::atomic<unsigned> lost{0};    ///< a bit for each rank
  std::atomic<bool> struck{false};  ///< a worker reached the point where it is struck
  std::atomic<bool> taken{false};   ///< the worker that will be the last one has samples
  std::atomic<pid_t> stopped{0};
};

using SharedNotes = test::Shared<Notes>;

void note(Notes& notes, const ServeReport& report) {
  for (Rank rank = 0; rank < kRanks; ++rank) {
    notes.consumed[rank] += report.consumed[rank];
  }
  notes.left_over = report.left_over;
  for (const auto& [rank, why] : report.lost) {
    notes.lost |= 1U << static_cast<unsigned>(rank);
  }
}

enum class Moment { Start, Taken, Confirmed };

/// What happens to a worker, and when.
struct Fate {
  std::function<void(Moment moment, int batch)> meets = [](Moment, int) {};
  microseconds for_each_batch{0};
};

void strike(Notes& notes, int signal) {
  notes.struck = true;
  (void)kill(getpid(), signal);
}

void wait_for(const std::atomic<bool>& event) {
  while (!event) {
    std::this_thread::sleep_for(microseconds(100));
  }
}

/// Waits for the event after some batches, so that the epoch does not end before it.
Fate patient(const std::atomic<bool>& event) {
  return {.meets = [&event](Moment, int batch) {
    if (batch == 8) {
      wait_for(event);
    }
  }};
}

/// Receives the signal at this moment.
Fate doomed(Notes& notes, Moment moment, int batch, int signal = SIGKILL) {
  return {.meets = [&notes, moment, batch, signal](Moment now, int this_batch) {
    if (now == moment && this_batch == batch) {
      strike(notes, signal);
    }
  }};
}

void work(Sampler& sampler, Notes& notes, const Fate& fate) {
  fate.meets(Moment::Start, 0);
  int batch = 0;
  for (Samples some = sampler.take(kBatch); !some.empty(); some = sampler.take(kBatch), ++batch) {
    fate.meets(Moment::Taken, batch);
    std::this_thread::sleep_for(fate.for_each_batch);
    sampler.confirm(std::ssize(some));
    for (const SampleIndex sample : some) {
      ++notes.confirmed[sample];
    }
    fate.meets(Moment::Confirmed, batch);
  }
}

using Serve = std::function<void(SampleMaster&)>;

/// Runs a master and four workers, each slower than the one before. Returns the result of launch().
int run_world(Notes& notes, const Serve& serve, const std::function<Fate(Rank)>& fate_of,
              const WorldOptions& options = {.deadline = {10}}) {
  return launch(
      kRanks,
      [&](World& world) {
        const Rank rank = world.rank();
        try {
          if (rank == kMaster) {
            SampleMaster master(world.all(), [&](Rank, std::span<const SampleIndex> samples) {
              for (const SampleIndex sample : samples) {
                ++notes.counted[sample];
              }
            });
            serve(master);
          } else {
            Fate fate = fate_of(rank);
            fate.for_each_batch = microseconds(300 * rank);
            const auto sampler = make_sampler(world.all(), kMaster);
            work(*sampler, notes, fate);
          }
        } catch (const CommError&) {
          notes.failed[rank] = true;
        }
        notes.finished[rank] = true;
      },
      options);
}

Serve pool(Notes& notes) {
  return [&notes](SampleMaster& master) {
    note(notes, master.serve_pool({.samples = kSamples, .seed = 1}));
  };
}

Fate nothing(Rank /*rank*/) {
  return {};
}

/// Expects that every sample was counted once and confirmed by at most one worker, and that all ranks but the lost ones
/// finished.
void expect_consumed_once(const Notes& notes, unsigned lost) {
  std::int64_t unheard = 0;  // counted, but the worker was killed before it received the reply
  for (std::int64_t i = 0; i < kSamples; ++i) {
    EXPECT_EQ(notes.counted[i], 1) << "sample " << i;
    EXPECT_LE(notes.confirmed[i], 1) << "sample " << i;
    unheard += notes.counted[i] - notes.confirmed[i];
  }
  EXPECT_LE(unheard, kBatch * std::popcount(lost));
  EXPECT_EQ(notes.left_over, 0);
  EXPECT_EQ(notes.lost, lost);
  std::int64_t consumed = 0;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const bool is_lost = (lost >> static_cast<unsigned>(rank) & 1U) != 0;
    EXPECT_EQ(notes.finished[rank], !is_lost) << "rank " << rank;
    EXPECT_FALSE(notes.failed[rank]) << "rank " << rank;
    consumed += notes.consumed[rank];
  }
  EXPECT_EQ(consumed, kSamples);
}

TEST(SamplePool, WorkersOfDifferentSpeedConsumeEachSampleOnce) {
  for (const TransportKind transport : {TransportKind::SharedMemory, TransportKind::Tcp}) {
    const SharedNotes notes;
    EXPECT_EQ(run_world(*notes, pool(*notes), nothing, {.deadline = {10}, .transport = transport}),
              0);
    expect_consumed_once(*notes, 0);
  }
}

TEST(SamplePool, FastWorkersConsumeMore) {
  const SharedNotes notes;
  launch(kRanks, [&](World& world) {
    if (world.rank() == kMaster) {
      SampleMaster master(world.all());
      note(*notes, master.serve_pool({.samples = kSamples}));
    } else if (world.rank() == 3) {
      const auto sampler = make_sampler(world.all(), kMaster);
      Fate fate = doomed(*notes, Moment::Taken, 0, 0);  // signal 0 has no effect
      fate.for_each_batch = microseconds(30'000);
      work(*sampler, *notes, fate);
    } else {
      const auto sampler = make_sampler(world.all(), kMaster);
      work(*sampler, *notes, patient(notes->struck));
    }
  });
  EXPECT_GT(notes->consumed[0], notes->consumed[3]);
  EXPECT_GT(notes->consumed[3], 0);
}

/// Expects that the epoch completes when rank 2 is killed.
void expect_survived(const std::function<Fate(Notes&)>& fate, TransportKind transport) {
  const SharedNotes notes;
  const auto fate_of = [&](Rank rank) { return rank == 2 ? fate(*notes) : patient(notes->struck); };
  EXPECT_EQ(run_world(*notes, pool(*notes), fate_of, {.deadline = {10}, .transport = transport}),
            1);
  expect_consumed_once(*notes, 1U << 2U);
}

TEST(SamplePool, WorkerKilledAtAnyPointLosesNothing) {
  for (const TransportKind transport : {TransportKind::SharedMemory, TransportKind::Tcp}) {
    for (const Moment moment : {Moment::Start, Moment::Taken, Moment::Confirmed}) {
      for (const int batch : {0, 5}) {
        if (moment == Moment::Start && batch > 0) {
          continue;
        }
        SCOPED_TRACE(fmt::format("{}: moment {}, batch {}", to_text(transport),
                                 static_cast<int>(moment), batch));
        expect_survived([&](Notes& notes) { return doomed(notes, moment, batch); }, transport);
      }
    }
  }
}

// Killed from another thread, so it may be in the middle of a message.
TEST(SamplePool, WorkerKilledAtAnyTimeLosesNothing) {
  for (const TransportKind transport : {TransportKind::SharedMemory, TransportKind::Tcp}) {
    for (const int after : {0, 50, 200, 700, 1500, 3000, 5000}) {
      SCOPED_TRACE(fmt::format("{}: after {} us", to_text(transport), after));
      const auto fate = [after](Notes& notes) {
        return Fate{.meets = [after, &notes](Moment now, int batch) {
          if (now == Moment::Start) {
            std::thread([after, &notes] {
              std::this_thread::sleep_for(microseconds(after));
              strike(notes, SIGKILL);
            }).detach();
          } else if (batch == 8) {
            pause();  // it must not finish first
          }
        }};
      };
      expect_survived(fate, transport);
    }
  }
}

// When it dies, the others have nothing to take. They wait for its samples.
TEST(SamplePool, SurvivesDeathOfLastWorkerWithSamples) {
  const SharedNotes notes;
  const auto fate_of = [&](Rank rank) {
    if (rank != 2) {
      return patient(notes->taken);
    }
    return Fate{.meets = [&](Moment now, int) {
      if (now != Moment::Taken) {
        return;
      }
      notes->taken = true;
      const auto open = [](const std::atomic<int>& times) { return times == 0; };
      while (std::ranges::count_if(notes->counted, open) > kBatch) {
        std::this_thread::sleep_for(microseconds(100));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      strike(*notes, SIGKILL);
    }};
  };
  EXPECT_EQ(run_world(*notes, pool(*notes), fate_of), 1);
  expect_consumed_once(*notes, 1U << 2U);
}

// It is stopped while it has samples, the master gives up on it, and it continues after others have consumed them: too
// late to confirm.
TEST(SamplePool, StoppedWorkerIsDroppedAndCannotConfirmLater) {
  const SharedNotes notes;
  const auto fate_of = [&](Rank rank) {
    if (rank != 1) {
      return patient(notes->struck);
    }
    notes->stopped = getpid();
    return doomed(*notes, Moment::Taken, 1, SIGSTOP);
  };
  const Serve serve = [&](SampleMaster& master) {
    note(*notes, master.serve_pool({.samples = kSamples, .seed = 1}));
    (void)kill(notes->stopped, SIGCONT);
  };
  EXPECT_EQ(run_world(*notes, serve, fate_of, {.deadline = {2}}), 0);
  EXPECT_TRUE(notes->finished[1] && notes->failed[1]);
  notes->finished[1] = notes->failed[1] = false;
  expect_consumed_once(*notes, 1U << 1U);
}

TEST(SamplePool, WorkerKilledBeforeJoiningIsDropped) {
  const SharedNotes notes;
  const auto fate_of = [&](Rank rank) {
    if (rank == 2) {
      strike(*notes, SIGKILL);
    }
    return Fate{};
  };
  EXPECT_EQ(run_world(*notes, pool(*notes), fate_of), 1);
  expect_consumed_once(*notes, 1U << 2U);
}

// It is alive, but takes longer for its second batch than the master's limit of 30 deadlines. The others wait
// meanwhile.
TEST(LongSamplePool, LateWorkerIsDroppedAndCannotConfirmLater) {
  const SharedNotes notes;
  const auto fate_of = [&](Rank rank) {
    if (rank != 1) {
      return patient(notes->struck);
    }
    return Fate{.meets = [&](Moment now, int batch) {
      if (now == Moment::Taken && batch == 1) {
        notes->struck = true;
        std::this_thread::sleep_for(std::chrono::seconds(18));
      }
    }};
  };
  EXPECT_EQ(run_world(*notes, pool(*notes), fate_of, {.deadline = {0.5}}), 0);
  EXPECT_TRUE(notes->finished[1] && notes->failed[1]);
  notes->finished[1] = notes->failed[1] = false;
  expect_consumed_once(*notes, 1U << 1U);
}

TEST(SamplePool, EndsWhenNoWorkerIsLeft) {
  const SharedNotes notes;
  const auto fate_of = [&](Rank) { return doomed(*notes, Moment::Confirmed, 2); };
  EXPECT_EQ(run_world(*notes, pool(*notes), fate_of), 1);
  EXPECT_TRUE(notes->finished[kMaster]);
  EXPECT_EQ(notes->lost, 0b1111U);
  EXPECT_EQ(notes->left_over, kSamples - 4 * 3 * kBatch);
}

TEST(SamplePool, WorkersLearnThatMasterDied) {
  const SharedNotes notes;
  const Serve serve = [&](SampleMaster& master) {
    std::thread([&] {
      wait_for(notes->struck);
      strike(*notes, SIGKILL);
    }).detach();
    // More than they can finish.
    (void)master.serve_lists(
        {Samples(1'000'000), Samples(1'000'000), Samples(1'000'000), Samples(1'000'000), {}});
  };
  const auto fate_of = [&](Rank rank) {
    return rank == 3 ? doomed(*notes, Moment::Confirmed, 2, 0) : Fate{};
  };
  EXPECT_EQ(run_world(*notes, serve, fate_of), 1);
  for (Rank rank = 0; rank < kMaster; ++rank) {
    EXPECT_TRUE(notes->finished[rank] && notes->failed[rank]) << "rank " << rank;
  }
}

TEST(SampleLists, ListOfKilledWorkerGoesToOthers) {
  const SharedNotes notes;
  const std::vector<double> speeds{4, 3, 2, 1, 0};
  const Serve serve = [&](SampleMaster& master) {
    note(*notes, master.serve_lists(lists_by_speed({.samples = kSamples, .seed = 2}, speeds)));
  };
  const auto fate_of = [&](Rank rank) {
    return rank == 0 ? doomed(*notes, Moment::Taken, 3) : Fate{};
  };
  EXPECT_EQ(run_world(*notes, serve, fate_of), 1);
  expect_consumed_once(*notes, 1U << 0U);
  EXPECT_EQ(notes->consumed[0], 3 * kBatch);
}

}  // namespace
}  // namespace trireme
