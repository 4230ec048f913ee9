#include "train/data/token_source.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "train/data/permutation.h"
#include "train/data/random.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

struct Split {
  std::int64_t training = 0;
  std::int64_t validation = 0;
};

void check_options(const TokenSourceOptions& options) {
  if (options.length < 1) {
    throw Error(ErrorKind::Usage, fmt::format("data: a window of {} tokens", options.length));
  }
  const double fraction = options.validation_fraction;
  if (!(fraction >= 0 && fraction < 1)) {
    throw Error(ErrorKind::Usage,
                fmt::format("data: the validation fraction is {}, not in [0, 1)", fraction));
  }
  if (options.part == Part::Validation && fraction == 0) {
    throw Error(ErrorKind::Usage, "data: no validation part without a validation fraction");
  }
}

/// w windows take w * length + 1 tokens.
Split split_windows(const Tokens& tokens, const TokenSourceOptions& options) {
  const bool both = options.validation_fraction > 0;
  const std::int64_t parts = both ? 2 : 1;
  const std::int64_t windows = std::max<std::int64_t>(0, tokens.size() - parts) / options.length;
  if (windows < parts) {
    throw Error(ErrorKind::Input,
                fmt::format("{}: has {}; windows of {} tokens{} need at least {}: use "
                            "more data or a smaller --length",
                            tokens.name(), plural(tokens.size(), "token"), options.length,
                            both ? " in two parts" : "", parts * (options.length + 1)));
  }
  if (!both) {
    return {.training = windows};
  }
  const double wanted = std::round(options.validation_fraction * static_cast<double>(windows));
  const std::int64_t validation =
      std::clamp(static_cast<std::int64_t>(wanted), std::int64_t{1}, windows - 1);
  return {.training = windows - validation, .validation = validation};
}

}  // namespace

TokenSource::TokenSource(Tokens tokens, const TokenSourceOptions& options)
    : tokens_(std::move(tokens)), options_(options) {
  check_options(options_);
  const Split split = split_windows(tokens_, options_);
  const bool training = options_.part == Part::Training;
  start_ = training ? 0 : split.training * options_.length + 1;
  windows_ = training ? split.training : split.validation;
}

void TokenSource::check(DataPosition at) const {
  if (at.epoch < 0 || at.index < 0 || at.index >= windows_) {
    throw Error(ErrorKind::Usage,
                fmt::format("{}: window {} of epoch {} is out of range; an epoch has {}",
                            tokens_.name(), at.index, at.epoch, windows_));
  }
}

std::int64_t TokenSource::first_token(DataPosition at) const {
  check(at);
  std::int64_t window = at.index;
  if (options_.order == Order::Shuffled) {
    const auto epoch = static_cast<std::uint64_t>(at.epoch);
    window = Permutation(windows_, random_bits(options_.seed, epoch)).at(at.index);
  }
  return start_ + window * options_.length;
}

DataPosition TokenSource::advance(DataPosition at, std::int64_t windows) const {
  check(at);
  if (windows < 0) {
    throw Error(ErrorKind::Usage, fmt::format("data: cannot advance by {} windows", windows));
  }
  const std::int64_t index = at.index + windows;
  return {.epoch = at.epoch + index / windows_, .index = index % windows_};
}

void TokenSource::fill(DataPosition at, std::span<std::int32_t> tokens,
                       std::span<std::int32_t> targets) const {
  const std::size_t length = options_.length;
  if (tokens.size() != targets.size() || tokens.size() % length != 0) {
    throw Error(ErrorKind::Usage,
                fmt::format("data: room for {} tokens and {} targets in windows of {}",
                            tokens.size(), targets.size(), length));
  }
  for (; !tokens.empty(); at = advance(at, 1)) {
    const std::int64_t first = first_token(at);
    tokens_.copy(first, tokens.first(length));
    tokens_.copy(first + 1, targets.first(length));
    tokens = tokens.subspan(length);
    targets = targets.subspan(length);
  }
}

Batch TokenSource::batch(DataPosition at, std::int64_t sequences) const {
  if (sequences < 0) {
    throw Error(ErrorKind::Usage, fmt::format("data: a batch of {} sequences", sequences));
  }
  const std::size_t size = sequences * options_.length;
  Batch batch{.sequences = sequences,
              .length = options_.length,
              .tokens = std::vector<std::int32_t>(size),
              .targets = std::vector<std::int32_t>(size)};
  fill(at, batch.tokens, batch.targets);
  return batch;
}

}  // namespace trireme::train
