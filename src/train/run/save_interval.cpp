#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/train_settings.h"

namespace trireme {
namespace {

[[noreturn]] void refuse_interval(std::string_view text, std::string_view why) {
  throw Error(ErrorKind::Usage,
              fmt::format("invalid interval '{}'{}; write it as steps (200), a time (15min), both "
                          "(200,15min), or 0 for the end only",
                          text, why));
}

/// Reads a number of steps, or a time with its unit. Each may be given once.
void set_part(std::string_view part, std::string_view text, SaveInterval& interval) {
  if (const std::optional<std::int64_t> steps = parse_integer(part)) {
    if (*steps < 1 || interval.steps > 0) {
      refuse_interval(text,
                      *steps < 1 ? ": steps must be 1 or more" : ": it has two numbers of steps");
    }
    interval.steps = *steps;
    return;
  }
  if (interval.time.count > 0) {
    refuse_interval(text, ": it has two times");
  }
  try {
    interval.time = parse_seconds(part);
  } catch (const Error&) {
    refuse_interval(text, "");
  }
  if (interval.time.count == 0) {
    refuse_interval(text, ": a time must be above 0");
  }
}

}  // namespace

SaveInterval parse_save_interval(std::string_view text) {
  SaveInterval interval;
  if (trim(text) == "0") {
    return interval;
  }
  const std::size_t comma = text.find(',');
  set_part(trim(text.substr(0, comma)), text, interval);
  if (comma != std::string_view::npos) {
    set_part(trim(text.substr(comma + 1)), text, interval);
  }
  return interval;
}

}  // namespace trireme
