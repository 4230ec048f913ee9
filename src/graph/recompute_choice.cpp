#include "trireme/recompute_choice.h"

#include <fmt/format.h>

#include "base/enum_names.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr auto kModes = enum_names<RecomputeMode>("none", "selective", "full");

[[noreturn]] void refuse(std::string_view text, std::string_view more) {
  throw Error(ErrorKind::Usage,
              fmt::format("unknown recomputation '{}'; use none, selective or full{}", text, more));
}

}  // namespace

std::string_view to_text(RecomputeMode mode) {
  return kModes[mode];
}

RecomputeMode parse_recompute_mode(std::string_view text) {
  return kModes.parse("recomputation", text);
}

std::string to_text(const RecomputeChoice& choice) {
  if (!choice.budget) {
    return std::string(to_text(choice.mode));
  }
  constexpr std::int64_t kMebi = std::int64_t{1} << 20U;
  const std::int64_t bytes = choice.budget->count;
  return bytes % kMebi == 0 ? fmt::format("{}MiB", bytes / kMebi) : fmt::format("{}B", bytes);
}

RecomputeChoice parse_recompute(std::string_view text) {
  RecomputeChoice choice;
  if (const std::optional<RecomputeMode> mode = kModes.find(text)) {
    choice.mode = *mode;
  } else if (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    choice.budget = parse_bytes(text);
  } else {
    refuse(text, ", or a size such as 64MiB, the most that activations may take");
  }
  return choice;
}

}  // namespace trireme
