#include <algorithm>
#include <array>
#include <iterator>
#include <new>

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include "comm/measure.h"
#include "measure/bench_page.h"
#include "measure/bench_run.h"
#include "measure/prober.h"
#include "tensor/container_size.h"
#include "trireme/comm.h"
#include "trireme/host_probe.h"

namespace trireme::measure {
namespace {

/// Bytes passed at a time: half of a chunk of the direct operations.
constexpr std::size_t kPassed = std::size_t{256} << 10;
/// Sizes at which reading another process's memory is timed.
constexpr std::array<std::size_t, 3> kPeeked{std::size_t{16} << 10, std::size_t{64} << 10, kPassed};
constexpr std::int64_t kGammaBytes = std::int64_t{64} << 10;

/// Sizes from `first` to at most `last`, each four times the previous one.
std::vector<std::int64_t> sizes(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> all;
  for (std::int64_t size = first; size <= last; size *= 4) {
    all.push_back(size);
  }
  return all;
}

std::vector<std::int64_t> message_sizes(const ProbeOptions& options) {
  return sizes(8, options.quick ? std::int64_t{512} << 10 : std::int64_t{8} << 20);
}

std::vector<std::int64_t> memory_sizes(const ProbeOptions& options) {
  return sizes(16 << 10, options.quick ? std::int64_t{4} << 20 : std::int64_t{64} << 20);
}

comm::Stores stores_for(std::int64_t bytes) {
  return bytes > comm::kStreamAbove ? comm::Stores::Streaming : comm::Stores::Cached;
}

/// Copying and combining buffers of each size, by one rank and by all.
void probe_memory(Prober& prober, const ProbeOptions& options, Sheet& sheet) {
  const Samples overhead = prober.time(prober.world().size(), [] {});
  for (const std::int64_t bytes : memory_sizes(options)) {
    const std::size_t count = container_size(Bytes{bytes});
    const auto a = prober.world().allocate<std::uint8_t>(count);
    const auto b = prober.world().allocate<std::uint8_t>(count);
    const auto c = prober.world().allocate<std::uint8_t>(count);
    for (const auto* memory : {&a, &b, &c}) {
      std::ranges::fill(memory->span(), std::uint8_t{1});
    }
    const auto from = std::as_bytes(a.span());
    const auto more = std::as_bytes(b.span());
    const auto into = std::as_writable_bytes(c.span());
    const std::array<const std::byte*, 2> inputs{from.data(), more.data()};
    const std::array<std::byte*, 1> targets{into.data()};
    const auto copy = [&] { comm::copy_bytes(into.data(), from.data(), count, stores_for(bytes)); };
    const auto combine = [&] {
      comm::combine_many({}, inputs, targets, bytes / 4, stores_for(bytes));
    };
    for (const Rank active : {Rank{1}, prober.world().size()}) {
      const auto touched = static_cast<double>(bytes);
      sheet.put(divided(less(prober.time(active, copy), overhead), 2 * touched), prober.rank());
      sheet.put(divided(less(prober.time(active, combine), overhead), 3 * touched), prober.rank());
    }
  }
}

/// The address of a rank's memory, for its neighbor.
struct Address {
  pid_t process = 0;
  std::byte* data = nullptr;
};

/// Passing bytes to a peer: writing them, past the caches and through them, to memory that the peer has read before,
/// reading what a peer has written that way, and reading a peer's private memory through the kernel.
void probe_passing(Prober& prober, std::span<std::byte> shared, Sheet& sheet) {
  const Rank ranks = prober.world().size();
  const auto place = [&](Rank rank) { return shared.data() + rank * comm::kRoundBytes; };
  std::vector<std::byte> own(kPassed);
  std::byte* mine = place(prober.rank());
  std::byte* theirs = place((prober.rank() + 1) % ranks);
  std::size_t round = 0;  // as staging memory is used
  const auto fetch = [&] {
    comm::copy_bytes(own.data(), theirs + round, kPassed, comm::Stores::Cached);
  };
  for (const comm::Stores stores : {comm::Stores::Streaming, comm::Stores::Cached}) {
    const auto stage = [&] {
      round = (round + kPassed) % comm::kRoundBytes;
      comm::copy_bytes(mine + round, own.data(), kPassed, stores);
    };
    sheet.put(prober.time(ranks, stage, fetch), prober.rank());
    sheet.put(prober.time(ranks, fetch, stage), prober.rank());
  }

  new (mine) Address{getpid(), own.data()};
  prober.meet();
  const Address address = *reinterpret_cast<const Address*>(theirs);
  std::vector<std::byte> copy(kPassed);
  for (const std::size_t bytes : kPeeked) {
    sheet.put(prober.time(ranks,
                          [&] {
                            const iovec to{copy.data(), bytes};
                            const iovec from{address.data, bytes};
                            (void)!process_vm_readv(address.process, &to, 1, &from, 1, 0);
                          }),
              prober.rank());
  }
  prober.meet();
}

/// Combining received data with local data, on one rank.
void probe_gamma(Prober& prober, Sheet& sheet) {
  std::vector<double> from(kGammaBytes / sizeof(double));
  std::vector<double> into(from.size());
  auto* target = std::as_writable_bytes(std::span(into)).data();
  const std::array<const std::byte*, 2> inputs{target, std::as_bytes(std::span(from)).data()};
  const std::array<std::byte*, 1> targets{target};
  for (const DType dtype : kDTypes) {
    constexpr int kRow = 4;  // a single one is too short for the clock
    const Samples samples = prober.time(1, [&] {
      for (int i = 0; i < kRow; ++i) {
        comm::combine_many({.dtype = dtype}, inputs, targets, kGammaBytes / size_of(dtype).count,
                           comm::Stores::Cached);
      }
    });
    sheet.put(divided(samples, static_cast<double>(kRow * kGammaBytes)), prober.rank());
  }
}

void probe_wait(Prober& prober, Sheet& sheet) {
  sheet.put(prober.time(prober.world().size(), [&] { prober.world().all().barrier(); }),
            prober.rank());
  sheet.put(prober.barriers_in_a_row(), prober.rank());
}

WaitProbe read_wait(Sheet& sheet, Rank ranks) {
  WaitProbe wait{.ranks = ranks};
  wait.first = estimate(sheet.take());
  wait.next = estimate(sheet.take());
  return wait;
}

/// A message from rank 0 to rank 1, and one in each direction: as the steps of algorithms send them, without the
/// initial wait of such calls when ranks share memory.
void probe_message(Prober& prober, std::int64_t bytes, const Samples& wait, Sheet& sheet) {
  const std::size_t count = container_size(Bytes{bytes});
  std::vector<std::uint8_t> both(2 * count);
  const std::span<std::uint8_t> whole(both);
  const auto mine = whole.subspan(prober.rank() * count, count);
  const Call one_way =
      broadcast<std::uint8_t>(mine, 0, {.method = Method::scheduled(Algorithm::Flat)});
  const Call exchange =
      allgather<std::uint8_t>(mine, whole, {.method = Method::scheduled(Algorithm::Ring)});
  sheet.put(less(prober.time(one_way), wait), prober.rank());
  sheet.put(less(prober.time(exchange), wait), prober.rank());
}

MessageProbe probe_messages(const ProbeOptions& options, TransportKind transport) {
  BenchPage page(2, Sheet::kBytes);
  run_bench_ranks(2, {.transport = transport}, page, [&](World& world) {
    Prober prober(world, page);
    Sheet sheet(page.results());
    const bool shares_memory =
        transport == TransportKind::SharedMemory || transport == TransportKind::InProcess;
    sheet.fill([&] {
      const Samples wait = shares_memory ? prober.time(Call{}) : Samples{};
      for (const std::int64_t bytes : message_sizes(options)) {
        probe_message(prober, bytes, wait, sheet);
      }
    });
  });
  MessageProbe probe{.transport = std::string(to_text(transport)), .points = {}, .fit = {}};
  Sheet sheet(page.results());
  std::vector<FitPoint> one_way;
  for (const std::int64_t bytes : message_sizes(options)) {
    MessagePoint point{.bytes = {bytes}};
    point.one_way = {estimate(sheet.take()).value};
    point.exchange = {estimate(sheet.take()).value};
    probe.points.push_back(point);
    one_way.push_back({static_cast<double>(bytes), point.one_way.count});
  }
  probe.fit = fit_line(one_way);
  return probe;
}

/// Half of a copy is accessing this rank's own memory, in cache; the rest is the passing, at least a tenth: on a busy
/// machine the copy may have been measured slower than the passing.
void read_passing(Sheet& sheet, HostProbe& probe) {
  const double own = probe.copy[2].together.value;
  for (Estimate* passing : {&probe.stage, &probe.fetch, &probe.cached_stage, &probe.cached_fetch}) {
    *passing = estimate(sheet.take_per_byte(static_cast<double>(kPassed)));
    for (double* value : {&passing->value, &passing->low, &passing->high}) {
      *value = std::max(*value / 10, *value - own);
    }
  }
  std::vector<FitPoint> points;
  points.reserve(kPeeked.size());
  for (const std::size_t bytes : kPeeked) {
    points.push_back({static_cast<double>(bytes), estimate(sheet.take()).value});
  }
  probe.peek = {.transport = "system", .points = {}, .fit = fit_line(points)};
}

void probe_cores(const ProbeOptions& options, HostProbe& probe) {
  BenchPage page(options.ranks, Sheet::kBytes + options.ranks * comm::kRoundBytes);
  const WorldOptions world_options{.transport = TransportKind::SharedMemory};
  run_bench_ranks(options.ranks, world_options, page, [&](World& world) {
    Prober prober(world, page);
    Sheet sheet(page.results().first(Sheet::kBytes));
    sheet.fill([&] {
      probe_memory(prober, options, sheet);
      probe_gamma(prober, sheet);
      probe_passing(prober, page.results().subspan(Sheet::kBytes), sheet);
    });
  });
  Sheet sheet(page.results().first(Sheet::kBytes));
  for (const std::int64_t bytes : memory_sizes(options)) {
    MemoryProbe copy{.footprint = {2 * bytes}};
    MemoryProbe combine{.footprint = {3 * bytes}};
    copy.alone = estimate(sheet.take());
    combine.alone = estimate(sheet.take());
    copy.together = estimate(sheet.take());
    combine.together = estimate(sheet.take());
    probe.copy.push_back(copy);
    probe.combine.push_back(combine);
  }
  for (const DType dtype : kDTypes) {
    probe.combining.push_back({std::string(to_text(dtype)), estimate(sheet.take())});
  }
  read_passing(sheet, probe);
}

WaitProbe probe_waits(Rank ranks) {
  BenchPage page(ranks, Sheet::kBytes);
  run_bench_ranks(ranks, {.transport = TransportKind::SharedMemory}, page, [&](World& world) {
    Prober prober(world, page);
    Sheet sheet(page.results());
    sheet.fill([&] { probe_wait(prober, sheet); });
  });
  Sheet sheet(page.results());
  return read_wait(sheet, ranks);
}

/// 2, 4, 8, … up to the cores, the cores themselves, and 4 and 8 even where there are fewer cores.
std::vector<Rank> wait_ranks(Rank cores) {
  std::vector<Rank> ranks{cores, 4, 8};
  for (Rank r = 2; r < cores; r *= 2) {
    ranks.push_back(r);
  }
  if (cores < 2) {
    ranks.front() = 2;
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

HostProbe probe_host(const ProbeOptions& options,
                     const std::function<void(const std::string&)>& progress) {
  HostProbe probe{.cores = options.ranks};
  progress("memory, combining, fetching");
  probe_cores(options, probe);
  for (const Rank ranks : wait_ranks(options.ranks)) {
    progress(fmt::format("waiting of {} ranks", ranks));
    probe.waits.push_back(probe_waits(ranks));
  }
  // Threads come last: processes must be forked before the program has threads.
  for (const TransportKind transport : all_transports()) {
    if (!is_built(transport)) {
      continue;
    }
    progress(fmt::format("messages by {}", to_text(transport)));
    probe.messages.push_back(probe_messages(options, transport));
  }
  return probe;
}

HostCosts host_costs(const HostProbe& probe) {
  const auto seconds = [](const Estimate& estimate) { return Seconds{estimate.value}; };
  const auto message = [&](const MessageProbe& one) {
    return MessageCost{one.transport, seconds(one.fit.intercept), seconds(one.fit.slope),
                       one.points};
  };
  HostCosts costs{.cores = probe.cores,
                  .stage = seconds(probe.stage),
                  .fetch = seconds(probe.fetch),
                  .cached = PassCost{seconds(probe.cached_stage), seconds(probe.cached_fetch)},
                  .peek = message(probe.peek),
                  .compute = probe.compute};
  std::ranges::transform(probe.messages, std::back_inserter(costs.messages), message);
  for (const CombineProbe& combine : probe.combining) {
    costs.combining.push_back({combine.dtype, seconds(combine.gamma)});
  }
  for (const WaitProbe& wait : probe.waits) {
    costs.waits.push_back({wait.ranks, seconds(wait.first), seconds(wait.next)});
  }
  for (const MemoryProbe& point : probe.copy) {
    costs.copy.push_back({point.footprint, seconds(point.alone), seconds(point.together)});
  }
  for (const MemoryProbe& point : probe.combine) {
    costs.combine.push_back({point.footprint, seconds(point.alone), seconds(point.together)});
  }
  return costs;
}

}  // namespace trireme::measure
