#include "report/page/traced_step.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <variant>

namespace trireme::report {
namespace {

constexpr std::string_view kMemory = " bytes";  ///< "activation bytes"

std::string text_of(const Trace::Span& span, std::string_view key) {
  const auto found = std::ranges::find(span.args, key, &TraceArg::key);
  const auto* text = found != span.args.end() ? std::get_if<std::string>(&found->value) : nullptr;
  return text != nullptr ? *text : "";
}

using Totals = std::map<std::pair<std::string, std::string>, OpTotals>;

void add_to(Totals& totals, const Trace::Span& span, const std::string& group) {
  OpTotals& one = totals[{span.name, group}];
  one.op = span.name;
  one.group = group;
  ++one.calls;
  one.bytes += number_of(span, "bytes");
  one.seconds += span.duration.count;
}

std::vector<OpTotals> sorted(const Totals& totals, double OpTotals::*by) {
  std::vector<OpTotals> all;
  for (const auto& [key, one] : totals) {
    all.push_back(one);
  }
  std::ranges::stable_sort(all, std::greater<>(), by);
  return all;
}

}  // namespace

Seconds end_of(const Trace& trace) {
  double end = 0;
  for (const Trace::Span& span : trace.spans) {
    end = std::max(end, span.start.count + span.duration.count);
  }
  return {end};
}

std::vector<OpTotals> exchanged(const std::vector<TracedRank>& ranks) {
  Totals totals;
  for (const TracedRank& rank : ranks) {
    for (const TracedExchange& exchange : rank.exchanges) {
      add_to(totals, *exchange.span, text_of(*exchange.span, "group"));
    }
  }
  return sorted(totals, &OpTotals::bytes);
}

std::vector<OpTotals> computed(const std::vector<TracedRank>& ranks) {
  Totals totals;
  for (const TracedRank& rank : ranks) {
    for (const Trace::Span* span : rank.kernels) {
      add_to(totals, *span, span->category);
    }
  }
  return sorted(totals, &OpTotals::seconds);
}

double MemoryMoment::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

const MemoryMoment& MemoryCourse::peak() const {
  return *std::ranges::max_element(moments, {}, &MemoryMoment::total);
}

MemoryCourse memory_of(const TracedRank& rank) {
  MemoryCourse course;
  for (const Trace::Counter* counter : rank.counters) {
    if (!counter->name.ends_with(kMemory)) {
      continue;
    }
    const std::string name = counter->name.substr(0, counter->name.size() - kMemory.size());
    const auto found = std::ranges::find(course.categories, name);
    const std::size_t at = found - course.categories.begin();
    if (found == course.categories.end()) {
      course.categories.push_back(name);
    }
    if (course.moments.empty() || course.moments.back().time != counter->time.count) {
      course.moments.push_back(course.moments.empty() ? MemoryMoment{} : course.moments.back());
      course.moments.back().time = counter->time.count;
    }
    std::vector<double>& bytes = course.moments.back().bytes;
    bytes.resize(std::max(bytes.size(), at + 1));
    bytes[at] = counter->value;
  }
  for (MemoryMoment& moment : course.moments) {
    moment.bytes.resize(course.categories.size());
  }
  return course;
}

}  // namespace trireme::report
