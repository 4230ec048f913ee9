// The worker's side of the protocol in wire.h.
#include <utility>

#include <fmt/format.h>

#include "train/sampler/wire.h"
#include "trireme/error.h"
#include "trireme/sampler.h"

namespace trireme {
namespace {

using train::Answer;
using train::Ask;
using train::SamplerMessage;

class ServedSampler : public Sampler {
 public:
  explicit ServedSampler(Group pair) : pair_(std::move(pair)) {}
  ~ServedSampler() override {
    try {
      send(make_message(Ask::Leave));
    } catch (...) {  // NOLINT(bugprone-empty-catch): the master failed or gave up on this worker
    }
  }
  ServedSampler(const ServedSampler&) = delete;
  ServedSampler& operator=(const ServedSampler&) = delete;

 private:
  std::vector<SampleIndex> do_take(std::int64_t count) override {
    SamplerMessage answer = ask(make_message(Ask::Take, count));
    while (answer == make_message(Answer::NotYet)) {
      answer = ask(make_message(Ask::Take, count));
    }
    std::vector<SampleIndex> some(answer[1]);
    if (!some.empty()) {
      pair_.receive<SampleIndex>(some, train::kMasterPlace);
    }
    return some;
  }
  void do_confirm(std::int64_t count) override { (void)ask(make_message(Ask::Confirm, count)); }

  void send(const SamplerMessage& message) {
    pair_.send<std::int64_t>(message, train::kMasterPlace);
  }
  SamplerMessage ask(const SamplerMessage& message) {
    send(message);
    SamplerMessage answer{};
    pair_.receive<std::int64_t>(answer, train::kMasterPlace);
    return answer;
  }

  Group pair_;
};

}  // namespace

std::unique_ptr<Sampler> make_sampler(Group& group, Rank master) {
  if (master < 0 || master >= group.size() || master == group.rank()) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("sampler: rank {} as the master of rank {}; it must be another one of the "
                    "group's {}",
                    master, group.rank(), group.size()));
  }
  return std::make_unique<ServedSampler>(group.subset({master, group.rank()}));
}

}  // namespace trireme
