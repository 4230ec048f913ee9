#include "ps/message_text.h"

#include <cstdint>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

namespace trireme::ps {

std::string describe(const View& view) {
  std::string text = fmt::format("epoch {} [", view.epoch);
  for (const Member& member : view.chain) {
    text += fmt::format(" {}.{}", to_text(member.server), member.incarnation);
  }
  return text + (view.learner ? fmt::format(" ] + {}", to_text(view.learner->server)) : " ]");
}

std::string describe(const Message& message) {
  return std::visit(
      []<class M>(const M& m) -> std::string {
        if constexpr (std::is_same_v<M, Push>) {
          return fmt::format("push shard {} epoch {} sequence {}", static_cast<int>(m.shard),
                             m.epoch, m.sequence);
        } else if constexpr (std::is_same_v<M, PushDone>) {
          return fmt::format("push done shard {} epoch {} sequence {}", static_cast<int>(m.shard),
                             m.epoch, m.sequence);
        } else if constexpr (std::is_same_v<M, Pull>) {
          return fmt::format("pull shard {} epoch {} request {} after {}",
                             static_cast<int>(m.shard), m.epoch, m.request, m.after);
        } else if constexpr (std::is_same_v<M, PullDone>) {
          return fmt::format("pull done shard {} epoch {} request {}", static_cast<int>(m.shard),
                             m.epoch, m.request);
        } else if constexpr (std::is_same_v<M, Forward>) {
          return fmt::format("forward shard {} epoch {} index {}: {:x} {}",
                             static_cast<int>(m.push.shard), m.push.epoch, m.index,
                             static_cast<std::uint64_t>(m.push.worker), m.push.sequence);
        } else if constexpr (std::is_same_v<M, Commit> || std::is_same_v<M, SyncPoint>) {
          return fmt::format("{} shard {} epoch {} index {}",
                             std::is_same_v<M, Commit> ? "commit" : "sync point",
                             static_cast<int>(m.shard), m.epoch, m.index);
        } else if constexpr (std::is_same_v<M, Resume>) {
          return fmt::format("resume shard {} epoch {} applied {} state {}",
                             static_cast<int>(m.shard), m.epoch, m.applied, m.has_state);
        } else if constexpr (std::is_same_v<M, SnapshotOffer>) {
          return fmt::format("snapshot shard {} epoch {} index {}", static_cast<int>(m.shard),
                             m.epoch, m.index);
        } else if constexpr (std::is_same_v<M, ClusterState>) {
          std::string text = "state";
          for (const ShardView& view : m.views) {
            text +=
                fmt::format("; shard {}: {}", static_cast<int>(view.shard), describe(view.view));
          }
          return text;
        } else if constexpr (std::is_same_v<M, WrongView>) {
          return fmt::format("wrong view shard {}: {}", static_cast<int>(m.shard),
                             describe(m.view));
        }
        if constexpr (std::is_same_v<M, WorkerBeat>) {
          std::string text = fmt::format("worker beat sent {}", m.sent);
          for (const TableClock& entry : m.clocks) {
            text += fmt::format("; clock {}", entry.clock);
          }
          return text;
        } else if constexpr (std::is_same_v<M, SlowestClocks>) {
          std::string text = fmt::format("slowest clocks sent {}", m.sent);
          for (const SlowestClock& entry : m.slowest) {
            text += fmt::format("; slowest {} registration {}", entry.clock, entry.registration);
          }
          return text;
        }
        return "other";
      },
      message);
}

}  // namespace trireme::ps
