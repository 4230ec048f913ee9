#include "train/run/data_identity.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "train/checkpoint/checksum.h"
#include "trireme/error.h"
#include "trireme/files.h"

namespace trireme::train {
namespace {

/// Data with more windows is sampled.
constexpr std::int64_t kHashedWindows = 8192;

void add_windows(const Batches& batches, std::int64_t length, Checksum& checksum) {
  std::vector<std::int32_t> inputs(length);
  std::vector<std::int32_t> targets(inputs.size());
  const std::int64_t windows = batches.epoch_size();
  const std::int64_t hashed = std::min(windows, kHashedWindows);
  for (std::int64_t i = 0; i < hashed; ++i) {
    batches.fill(
        {.epoch = 0, .index = i * (windows / hashed)},
        {std::as_writable_bytes(std::span(inputs)), std::as_writable_bytes(std::span(targets))});
    checksum.add(std::as_bytes(std::span(inputs)));
    checksum.add(std::as_bytes(std::span(targets)).last(sizeof(std::int32_t)));
  }
}

std::string identity_file(const std::string& run_folder) {
  return run_folder + "/data.json";
}

}  // namespace

std::string data_identity(const TrainData& data, const TrainSettings& settings) {
  if (settings.data.empty() || data.training->epoch_size() == 0) {
    return {};
  }
  Checksum checksum;
  std::int64_t windows = 0;
  for (const Batches* part : {data.training.get(), data.validation.get()}) {
    if (part != nullptr) {
      windows += part->epoch_size();
      add_windows(*part, settings.length, checksum);
    }
  }
  return fmt::format("{} tokens, {} examples of {} tokens, xxh3 {}", data.tokens, windows,
                     settings.length, checksum_text(checksum.value()));
}

void write_data_identity(const std::string& run_folder, const std::string& identity) {
  write_file(identity_file(run_folder), Json{{"data", identity}}.dump(2) + "\n");
}

void require_same_data(const std::string& run_folder, const std::string& identity,
                       const TrainSettings& settings) {
  const std::string path = identity_file(run_folder);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return;
  }
  const Json json = parse_json(read_file(path), path);
  const std::string stored = JsonObject(json, path, "", {"data"}).text("data");
  // Runs saved before the tokens were counted do not have their number.
  if (stored != identity && (stored.empty() || !identity.ends_with(" tokens, " + stored))) {
    throw Error(
        ErrorKind::Input,
        fmt::format("--data: the contents of '{}' are not what {} was trained on ({} now, {} "
                    "then); restore them, or start a new run",
                    fmt::join(settings.data, "', '"), run_folder,
                    identity.empty() ? "generated" : identity,
                    stored.empty() ? "generated" : stored));
  }
}

}  // namespace trireme::train
