#include "ps/tools/chaos_ledger.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/net/fd.h"

namespace trireme::ps {
namespace {

constexpr double kBucketsPerOctave = 4;

}  // namespace

void* map_shared(const std::string& path, std::size_t size) {
  const comm::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    comm::throw_system("cannot make " + path, errno);
  }
  void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {  // NOLINT(performance-no-int-to-ptr): the macro
    comm::throw_system("cannot map " + path, errno);
  }
  return data;
}

void unmap_shared(void* data, std::size_t size) noexcept {
  ::munmap(data, size);
}

std::string ledger_file(const std::string& folder, std::size_t life) {
  return fmt::format("{}/ledger-{}", folder, life);
}

std::string roster_file(const std::string& folder) {
  return folder + "/roster";
}

std::size_t latency_bucket(std::int64_t micros) {
  const double octaves = std::log2(static_cast<double>(std::max<std::int64_t>(micros, 1)));
  const auto bucket = static_cast<std::size_t>(octaves * kBucketsPerOctave);
  return std::min(bucket, std::tuple_size_v<decltype(LifeLedger::latencies)> - 1);
}

double bucket_micros(std::size_t bucket) {
  return std::exp2((static_cast<double>(bucket) + 0.5) / kBucketsPerOctave);
}

}  // namespace trireme::ps
