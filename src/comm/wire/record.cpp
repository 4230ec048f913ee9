#include "comm/wire/record.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "trireme/tensor.h"

namespace trireme::comm {
namespace {

/// One round of a multiplicative hash: cheap, and changing any bit changes the result.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  hash = (hash ^ value) * kOdd;
  return hash ^ (hash >> 32);
}

std::uint64_t hash_counts(const Call& call) {
  // The sizes of an all-to-all legitimately differ from rank to rank; its messages carry them.
  if (call.counts.empty() || call.operation == Operation::Alltoall) {
    return call.counts.empty() ? 0 : 1;
  }
  std::uint64_t hash = 2;
  for (const std::int64_t count : call.counts) {
    hash = mix(hash, static_cast<std::uint64_t>(count));
  }
  return hash;
}

std::uint64_t hash_name(const UserReduction* user) {
  if (user == nullptr) {
    return 0;
  }
  std::uint64_t hash = 3;
  for (const char letter : user->name) {
    hash = mix(hash, static_cast<unsigned char>(letter));
  }
  return hash | 1;
}

std::uint64_t fingerprint_of(const Record& r) {
  const std::uint64_t kinds =
      static_cast<std::uint64_t>(r.operation) | static_cast<std::uint64_t>(r.dtype) << 8 |
      static_cast<std::uint64_t>(r.reduction) << 16 | static_cast<std::uint64_t>(r.order) << 24 |
      static_cast<std::uint64_t>(r.method) << 32 | static_cast<std::uint64_t>(r.algorithm) << 40;
  // Usually the root is 0 and the other fields are unset: then two rounds suffice.
  std::uint64_t hash = mix(mix(1, kinds), static_cast<std::uint64_t>(r.count));
  if (r.root != 0) {
    hash = mix(hash, static_cast<std::uint64_t>(r.root));
  }
  if ((r.counts_hash | r.user_hash) != 0) {
    hash = mix(mix(hash ^ 1, r.counts_hash), r.user_hash);
  }
  return hash;
}

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  return text;
}

/// Groups ranks by their call; omits ranks whose call is unknown.
std::map<std::uint64_t, std::vector<Rank>> parties_of(const std::vector<Witness>& witnesses) {
  std::map<std::uint64_t, std::vector<Rank>> parties;
  for (const Witness& w : witnesses) {
    if (w.known) {
      parties[w.record.fingerprint].push_back(w.world_rank);
    }
  }
  return parties;
}

const Record& record_of(const std::vector<Witness>& witnesses, std::uint64_t fingerprint) {
  return std::ranges::find_if(
             witnesses,
             [&](const Witness& w) { return w.known && w.record.fingerprint == fingerprint; })
      ->record;
}

template <class Field>
bool differ(const std::vector<Witness>& witnesses, Field field) {
  const Witness* first = nullptr;
  for (const Witness& w : witnesses) {
    if (!w.known) {
      continue;
    }
    if (first != nullptr && field(w.record) != field(first->record)) {
      return true;
    }
    first = first == nullptr ? &w : first;
  }
  return false;
}

/// The fields in which they differ: "count and dtype".
std::string differences(const std::vector<Witness>& witnesses) {
  std::string text;
  const auto add = [&](const char* what, auto field) {
    if (differ(witnesses, field)) {
      text += (text.empty() ? "" : ", ") + std::string(what);
    }
  };
  add("operation", [](const Record& r) { return r.operation; });
  add("count", [](const Record& r) { return r.count; });
  add("dtype", [](const Record& r) { return r.dtype; });
  add("reduction", [](const Record& r) { return std::pair(r.reduction, r.user_hash); });
  add("root", [](const Record& r) { return r.root; });
  add("sizes of blocks", [](const Record& r) { return r.counts_hash; });
  add("order", [](const Record& r) { return r.order; });
  add("method", [](const Record& r) { return std::pair(r.method, r.algorithm); });
  return text.empty() ? "what they called" : text;
}

}  // namespace

void describe(const Call& call, std::int64_t count, const Method& method, Record& r) {
  const bool combined = combines(call.operation);
  r.count = count;
  r.operation = call.operation;
  r.dtype = call.dtype;
  r.root = has_root(call.operation) ? call.root : 0;
  r.counts_hash = hash_counts(call);
  r.method = method.kind;
  r.algorithm = method.kind == Method::Kind::Scheduled ? method.algorithm : Algorithm{};
  r.reduction = combined ? call.options.reduction : Reduction::Sum;
  r.user_hash = combined ? hash_name(call.options.user) : 0;
  r.order = combined ? call.options.order : Order::Any;
  r.site[0] = '\0';
  if (call.options.site[0] != '\0') {
    const std::string_view site = call.options.site;
    const std::size_t keep = std::min(site.size(), sizeof(r.site) - 1);
    std::memcpy(r.site, site.data() + site.size() - keep, keep);
    r.site[keep] = '\0';
  }
  r.fingerprint = fingerprint_of(r);
}

std::string to_text(const Record& r) {
  if (r.operation == Operation::Barrier) {
    return r.site[0] == '\0' ? "barrier" : fmt::format("barrier, at {}", r.site);
  }
  std::string text =
      fmt::format("{} of {}{}", to_text(r.operation),
                  r.count < 0 ? std::string{} : fmt::format("{} ", r.count), to_text(r.dtype));
  if (combines(r.operation)) {
    text += r.user_hash != 0 ? ", own reduction" : fmt::format(", {}", to_text(r.reduction));
    text += r.order == Order::Fixed ? ", fixed order" : "";
  }
  if (has_root(r.operation)) {
    text += fmt::format(", root {}", r.root);
  }
  text += r.counts_hash != 0 ? ", own block sizes" : "";
  text += fmt::format(", by {}", to_text(Method{r.method, r.algorithm}));
  return r.site[0] == '\0' ? text : fmt::format("{}, at {}", text, r.site);
}

std::string mismatch_text(std::uint64_t sequence, const std::vector<Witness>& witnesses) {
  std::string text =
      fmt::format("call #{}: the ranks disagree on {}", sequence, differences(witnesses));
  for (const auto& [fingerprint, ranks] : parties_of(witnesses)) {
    text +=
        fmt::format("\n  {}: {}", ranks_text(ranks), to_text(record_of(witnesses, fingerprint)));
  }
  std::vector<Rank> silent;
  for (const Witness& w : witnesses) {
    if (!w.known) {
      silent.push_back(w.world_rank);
    }
  }
  return silent.empty() ? text : text + fmt::format("\n  {}: not here yet", ranks_text(silent));
}

std::vector<Rank> mismatch_culprits(const std::vector<Witness>& witnesses) {
  const auto parties = parties_of(witnesses);
  std::size_t largest = 0;
  std::size_t how_many = 0;
  for (const auto& [fingerprint, ranks] : parties) {
    how_many = ranks.size() == largest ? how_many + 1 : (ranks.size() > largest ? 1 : how_many);
    largest = std::max(largest, ranks.size());
  }
  std::vector<Rank> culprits;
  for (const auto& [fingerprint, ranks] : parties) {
    if (how_many > 1 || ranks.size() < largest) {
      culprits.insert(culprits.end(), ranks.begin(), ranks.end());
    }
  }
  std::ranges::sort(culprits);
  return culprits;
}

}  // namespace trireme::comm
