#include "ps/host/loop_counters.h"

#include <string_view>
#include <type_traits>
#include <utility>

namespace trireme::ps {
namespace {

/// Of the messages that a load shows in; all others are "other".
template <class M>
constexpr std::string_view name_of() {
  // clang-format off
  if constexpr (std::is_same_v<M, Push>) { return "push"; }
  else if constexpr (std::is_same_v<M, PushDone>) { return "push_done"; }
  else if constexpr (std::is_same_v<M, Pull>) { return "pull"; }
  else if constexpr (std::is_same_v<M, PullDone>) { return "pull_done"; }
  else if constexpr (std::is_same_v<M, WrongView>) { return "wrong_view"; }
  else if constexpr (std::is_same_v<M, Forward>) { return "forward"; }
  else if constexpr (std::is_same_v<M, Commit>) { return "commit"; }
  else if constexpr (std::is_same_v<M, Chunk>) { return "chunk"; }
  else if constexpr (std::is_same_v<M, ServerBeat>) { return "server_beat"; }
  else if constexpr (std::is_same_v<M, WorkerBeat>) { return "worker_beat"; }
  else if constexpr (std::is_same_v<M, ClusterState>) { return "cluster_state"; }
  else { return "other"; }
  // clang-format on
}

template <std::size_t... I>
constexpr auto make_names(std::index_sequence<I...> /*kinds*/) {
  return std::array{name_of<std::variant_alternative_t<I, Message>>()...};
}
constexpr auto kNames = make_names(std::make_index_sequence<std::variant_size_v<Message>>());

void append_messages(std::string_view family,
                     const std::array<std::uint64_t, kNames.size()>& counts,
                     std::vector<MetricSample>& samples) {
  double others = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (kNames.at(i) == "other") {
      others += static_cast<double>(counts.at(i));
    } else {
      samples.push_back(
          {std::string(family), std::string(kNames.at(i)), static_cast<double>(counts.at(i))});
    }
  }
  samples.push_back({std::string(family), "other", others});
}

}  // namespace

void LoopCounters::count(Direction& direction, const Message& message) {
  ++direction.messages.at(message.index());
  if (const auto* push = std::get_if<Push>(&message)) {
    direction.floats += push->values.size();
  } else if (const auto* forward = std::get_if<Forward>(&message)) {
    direction.floats += forward->push.values.size();
  } else if (const auto* pushed = std::get_if<PushDone>(&message)) {
    direction.floats += pushed->values.size();
  } else if (const auto* pulled = std::get_if<PullDone>(&message)) {
    direction.floats += pulled->values.size();
  }
}

void LoopCounters::append_to(std::vector<MetricSample>& samples) const {
  append_messages("messages_received", received_.messages, samples);
  append_messages("messages_sent", sent_.messages, samples);
  const auto bytes = [](std::uint64_t floats) {
    return static_cast<double>(floats * sizeof(float));
  };
  samples.push_back({"values_received_bytes", "", bytes(received_.floats)});
  samples.push_back({"values_sent_bytes", "", bytes(sent_.floats)});
  samples.push_back({"peers_refused", "", static_cast<double>(refused_)});
}

}  // namespace trireme::ps
