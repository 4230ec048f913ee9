#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "trireme/message.h"
#include "trireme/ps_cache.h"
#include "trireme/valid.h"

namespace trireme::ps {
namespace {

/// Requests into which an inconsistent read is divided.
constexpr std::size_t kInconsistentParts = 8;

std::unique_ptr<const UpdateRule> make_update(const TableSpec& spec, const CacheOptions& options) {
  return options.updates ? options.updates->make(spec.update, spec.parameters)
                         : UpdateRegistry().make(spec.update, spec.parameters);
}

}  // namespace

TableCache::TableCache(ParameterClient& client, TableHandle table, const TableSpec& spec,
                       const CacheOptions& options)
    : client_(client),
      table_(table),
      spec_(spec),
      options_(options),
      update_(make_update(spec, options)),
      values_(spec.keys * spec.width) {
  require(spec.layout == TableLayout::Dense,
          fmt::format("table '{}' is sparse: only dense tables are cached", spec.name));
  require(options.reads == Reads::Snapshot || spec.consistency == Consistency::Async,
          fmt::format("table '{}' is {}: only async tables have inconsistent reads", spec.name,
                      to_text(spec.consistency)));
}

// The copy includes the iterations before clock_. In iteration c the model promises those before c - s.
bool TableCache::is_fresh_enough() const {
  const std::optional<ClockCount> bound = staleness_bound(spec_);
  const ClockCount own = client_.clock(table_);
  return read_at_ && bound && (*bound > 0 || *read_at_ == own) && clock_ >= own - *bound;
}

void TableCache::refresh() {
  const bool is_inconsistent = options_.reads == Reads::Inconsistent;
  const bool was_reading = reading_ != nullptr;
  if (was_reading) {
    adopt_reading();
  }
  if (!(was_reading && is_inconsistent) && !is_fresh_enough()) {
    read();
  }
  if (is_inconsistent) {
    begin_reading(kInconsistentParts);
  }
}

void TableCache::read() {
  await_push();
  begin_reading(1);
  adopt_reading();
}

void TableCache::begin_reading(std::size_t parts) {
  reading_ = std::make_unique<Reading>();
  reading_->clock = client_.slowest_clock(table_);
  reading_->values.resize(values_.size());
  const Key step = std::max<Key>(1, (spec_.keys + parts - 1) / parts);
  for (Key begin = 0; begin < spec_.keys; begin += step) {
    const Key end = std::min(begin + step, spec_.keys);
    reading_->parts.push_back(client_.pull(
        table_, Keys::range(begin, end),
        std::span(reading_->values).subspan(begin * spec_.width, (end - begin) * spec_.width)));
  }
}

void TableCache::adopt_reading() {
  for (PendingOperation& part : reading_->parts) {
    part.wait();
  }
  values_ = std::move(reading_->values);
  clock_ = reading_->clock;
  read_at_ = client_.clock(table_);
  reading_.reset();
  ++reads_;
}

void TableCache::apply_locally(std::span<const float> gradient) {
  state_.resize(spec_.keys * update_->state_per_key(spec_.width));
  update_->apply({.width = spec_.width, .values = values_, .state = state_, .gradient = gradient});
}

void TableCache::push(std::span<const float> gradient) {
  await_push();
  gradient_.assign(gradient.begin(), gradient.end());
  push_.emplace(client_.push(table_, Keys::range(0, spec_.keys), gradient_));
  const std::optional<ClockCount> bound = staleness_bound(spec_);
  if (is_eager()) {
    begin_reading(1);
  } else if (bound && *bound > 0) {
    apply_locally(gradient_);
  }
}

void TableCache::await_push() {
  if (push_) {
    push_->wait();
    push_.reset();
  }
}

void TableCache::flush() {
  await_push();
  if (reading_) {
    adopt_reading();
  }
}

std::string_view to_text(Reads reads) {
  static constexpr auto kNames = enum_names<Reads>("snapshot", "inconsistent");
  return kNames[reads];
}

}  // namespace trireme::ps
