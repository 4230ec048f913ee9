#include "train/run/disk_space.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::train {

std::string check_disk_space(const DiskNeed& need, Bytes available) {
  if (available < need.checkpoint) {
    throw Error(
        ErrorKind::System,
        fmt::format("no room for a checkpoint: one has {}, and the disk of '{}' has {} left; "
                    "free some space, or choose another disk with --run-folder",
                    to_text(need.checkpoint), need.folder, to_text(available)));
  }
  const std::int64_t more = std::max(1, need.keep + 1 - need.saved);
  if (available.count / more < need.checkpoint.count) {
    return fmt::format(
        "--keep {} needs room for {} more checkpoint{} of {}, and the disk of '{}' has {} left; "
        "free some space, or keep fewer",
        need.keep, more, more == 1 ? "" : "s", to_text(need.checkpoint), need.folder,
        to_text(available));
  }
  return {};
}

Bytes free_disk_space(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return {error || space.available > static_cast<std::uintmax_t>(kMost)
              ? kMost
              : static_cast<std::int64_t>(space.available)};
}

}  // namespace trireme::train
