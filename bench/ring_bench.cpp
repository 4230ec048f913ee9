// How much a balanced causal ring saves, on a machine with a core for each rank.
//
//   build/release/bench/ring_bench [--ranks P] [--length L] [--steps N] [--repeats R]
//
// Training steps of a small GPT on one long sequence, so that attention is most of the work: on P ranks with the sequence
// sharded along context and attention by the ring, and on one rank, each rank with one thread. In a ring whose ranks hold
// consecutive parts of the sequence, the last rank has the longest rows under the causal mask. Its step takes at least what
// the last P-th of the sequence adds on one rank: the time of the sequence less that of the first (P-1)/P of it, without any
// communication. That bound is what the balanced ring is compared with. Its own bound is a P-th of one rank's time.
// Interleaved runs; medians over all steps but the first of each run.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/median.h"
#include "temporary_folder.h"
#include "trireme/cpu_device.h"
#include "trireme/train.h"

namespace trireme {
namespace {

struct Options {
  int ranks = 4;
  std::int64_t length = 8192;
  std::int64_t steps = 6;
  int repeats = 3;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const int value = std::stoi(argv[i + 1]);
    options.ranks = name == "--ranks" ? value : options.ranks;
    options.length = name == "--length" ? value : options.length;
    options.steps = name == "--steps" ? value : options.steps;
    options.repeats = name == "--repeats" ? value : options.repeats;
  }
  return options;
}

/// Trains on this many ranks and adds the seconds of the steps.
void add_steps(const Options& options, int ranks, std::int64_t length, std::vector<double>& times) {
  const TemporaryFolder folder;
  RunOptions run;
  run.settings.model = "gpt-nano";
  run.settings.batch = 1;
  run.settings.length = length;
  run.settings.steps = options.steps;
  run.plan.mesh = Mesh({{"context", ranks}});
  run.plan.context = Plan::Context::Ring;
  run.make_device = cpu_devices(1);
  run.rank_kind = RankKind::Threads;
  run.run_folder = folder / "run";
  run.observer.step = [&](const RunFacts&, const StepReport& report) {
    if (report.step > 1) {
      times.push_back(report.step_time.count);
    }
  };
  run_ranks(std::move(run), [](TrainingRun& one) { one.train(); });
}

int run(const Options& o) {
  std::vector<double> ring;
  std::vector<double> alone;
  std::vector<double> shorter;
  for (int i = 0; i < o.repeats; ++i) {
    add_steps(o, o.ranks, o.length, ring);
    add_steps(o, 1, o.length, alone);
    add_steps(o, 1, o.length / o.ranks * (o.ranks - 1), shorter);
  }
  const double balanced = median(ring);
  const double one = median(alone);
  const double unbalanced = one - median(shorter);
  fmt::print("{} ranks, {} tokens, one thread each; medians of {} steps\n", o.ranks, o.length,
             ring.size());
  fmt::print("  one rank                        {:9.2f} ms\n", one * 1e3);
  fmt::print("  balanced ring                   {:9.2f} ms   {:.2f} of its bound, one rank / {}\n",
             balanced * 1e3, balanced * o.ranks / one, o.ranks);
  fmt::print("  unbalanced ring, at least       {:9.2f} ms\n", unbalanced * 1e3);
  fmt::print("  balanced / unbalanced           {:9.2f}\n", balanced / unbalanced);
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::run(trireme::parse(argc, argv));
}
