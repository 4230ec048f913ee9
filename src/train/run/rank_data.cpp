#include "train/run/rank_data.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

constexpr std::string_view kRank = "{rank}";

bool names_rank(const std::string& file) {
  return file.find(kRank) != std::string::npos;
}

class RankBatches : public Batches {
 public:
  RankBatches(std::unique_ptr<Batches> own, const RankRows& rows)
      : own_(std::move(own)), rows_(rows) {}

  void fill(DataPosition at, const BatchMemory& to) const override {
    const auto count = static_cast<std::int64_t>(to.inputs.size() / rows_.row_bytes);
    std::int64_t mine = at.index / rows_.ranks;
    for (std::int64_t row = 0; row < count; ++row) {
      if (owner_of(row) == rows_.rank) {
        const std::int64_t epoch = at.epoch + mine / rows_.windows;
        const std::size_t begin = row * rows_.row_bytes;
        own_->fill({.epoch = epoch, .index = mine % rows_.windows},
                   {to.inputs.subspan(begin, rows_.row_bytes),
                    to.targets.subspan(begin, rows_.row_bytes)});
        ++mine;
      }
    }
  }

  [[nodiscard]] DataPosition advance(DataPosition at, std::int64_t examples) const override {
    const std::int64_t index = at.index + examples;
    return {.epoch = at.epoch + index / epoch_size(), .index = index % epoch_size()};
  }

  [[nodiscard]] std::int64_t epoch_size() const override { return rows_.windows * rows_.ranks; }

 private:
  /// The rank that computes a row of the batch.
  [[nodiscard]] std::int64_t owner_of(std::int64_t row) const {
    const std::int64_t in_microbatch = rows_.batch / rows_.microbatches;
    return row % in_microbatch / (in_microbatch / rows_.ranks);
  }

  std::unique_ptr<Batches> own_;
  RankRows rows_;
};

}  // namespace

bool has_rank_files(const TrainSettings& settings) {
  return std::ranges::any_of(settings.data, names_rank) ||
         std::ranges::any_of(settings.validation_data, names_rank);
}

TrainSettings with_rank_files(TrainSettings settings, int rank) {
  for (std::vector<std::string>* files : {&settings.data, &settings.validation_data}) {
    for (std::string& file : *files) {
      for (std::size_t at = file.find(kRank); at != std::string::npos; at = file.find(kRank)) {
        file.replace(at, kRank.size(), std::to_string(rank));
      }
    }
  }
  return settings;
}

std::vector<std::string> rank_files_problems(const TrainSettings& settings, const Plan& plan) {
  const std::int64_t parts = std::int64_t{plan.mesh.size("data")} * plan.microbatches;
  if (settings.sync != "allreduce") {
    return {fmt::format("--data with {{rank}} requires --sync allreduce, and --sync is {}",
                        settings.sync)};
  }
  if (plan.mesh.size("expert") > 1) {
    return {"--data with {rank}: ranks along expert share sequences; use a mesh without expert"};
  }
  if (settings.batch % parts != 0) {
    return {fmt::format(
        "--data with {{rank}}: --batch {} does not divide evenly into {} parts, one for each "
        "rank along data and micro-batch; use a multiple",
        settings.batch, parts)};
  }
  return {};
}

std::unique_ptr<Batches> make_rank_batches(std::unique_ptr<Batches> own, const RankRows& rows) {
  return std::make_unique<RankBatches>(std::move(own), rows);
}

void share_rank_files(TrainData& data, const TrainSettings& settings, const Plan& plan,
                      Ranks& ranks) {
  const int count = plan.mesh.size("data");
  const std::int64_t share = settings.batch / count;
  RankRows rows{.rank = ranks.worker(),
                .ranks = count,
                .microbatches = plan.microbatches,
                .batch = settings.batch,
                .row_bytes = static_cast<std::size_t>(settings.length) * sizeof(std::int32_t)};
  for (std::unique_ptr<Batches>* part : {&data.training, &data.validation}) {
    std::array<std::int32_t, 1> least{*part ? static_cast<std::int32_t>(-(*part)->epoch_size())
                                            : 0};
    ranks.take_maximum(least);
    rows.windows = -least[0] / share * share;
    require(!*part || rows.windows > 0,
            fmt::format("--data with {{rank}}: a rank has {} sequences of {} tokens, and its share "
                        "of a batch is {}; use longer files or a smaller --batch",
                        -least[0], settings.length, share));
    *part = *part ? make_rank_batches(std::move(*part), rows) : nullptr;
    rows.microbatches = 1;  // in validation
  }
}

}  // namespace trireme::train
