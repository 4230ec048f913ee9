#include "train/sync/mixer.h"

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::train {
namespace {

class LocalMixer : public Mixer {
 public:
  LocalMixer(int steps, Group& workers) : steps_(steps), workers_(workers) {}

  void reset(std::span<const float> /*model*/) override {}
  void mix(std::int64_t step, std::span<float> model) override {
    if (step % steps_ == 0) {
      average(model);
    }
  }
  void average(std::span<float> model) override { average_over(workers_, model); }

 private:
  int steps_;
  Group workers_;
};

}  // namespace

void average_over(Group& group, std::span<float> elements) {
  if (group.size() == 1) {
    return;
  }
  group.run(allreduce<float>(elements));
  const auto count = static_cast<float>(group.size());
  for (float& element : elements) {
    element /= count;
  }
}

std::unique_ptr<Mixer> make_local_mixer(int steps, Group& workers) {
  return std::make_unique<LocalMixer>(steps, workers);
}

std::unique_ptr<Mixer> make_mixer(const SyncSpec& spec, Group& workers) {
  switch (spec.kind) {
    case SyncSpec::Kind::Local:
      return make_local_mixer(spec.steps, workers);
    case SyncSpec::Kind::Gossip:
      return make_gossip_mixer(workers);
    case SyncSpec::Kind::Group:
      return make_group_mixer(spec, workers);
    case SyncSpec::Kind::Hogwild:
      return make_hogwild_mixer(workers);
    default:
      throw Error(ErrorKind::Usage, fmt::format("{} does not average models", to_text(spec)));
  }
}

}  // namespace trireme::train
