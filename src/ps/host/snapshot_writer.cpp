#include "ps/host/snapshot_writer.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "comm/net/deadline.h"
#include "ps/host/snapshot_files.h"

namespace trireme::ps {
namespace {

constexpr Seconds kCheckEvery{1};

SnapshotWriter::Outcome write(const std::string& folder, const SnapshotJob& job) {
  try {
    return {{job.number, write_snapshot_part(folder, job)}, {}};
  } catch (const std::exception& error) {
    return {{},
            fmt::format("snapshot {}: cannot store shard {}: {}: is the folder that of the "
                        "coordinator?",
                        job.number, static_cast<std::uint32_t>(job.shard), error.what())};
  }
}

}  // namespace

SnapshotWriter::SnapshotWriter(std::string folder)
    : folder_(std::move(folder)), thread_([this] { run(); }) {}

SnapshotWriter::~SnapshotWriter() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool SnapshotWriter::is_idle() const {
  const MutexLock lock(mutex_);
  return !job_ && !outcome_;
}

void SnapshotWriter::start(SnapshotJob job) {
  const MutexLock lock(mutex_);
  job_ = std::move(job);
  changed_.notify_all();
}

std::optional<SnapshotWriter::Outcome> SnapshotWriter::take_outcome() {
  const MutexLock lock(mutex_);
  return std::exchange(outcome_, std::nullopt);
}

void SnapshotWriter::run() {
  for (;;) {
    SnapshotJob job;
    {
      const MutexLock lock(mutex_);
      while (!job_ && !is_stopping_) {
        changed_.wait_until(mutex_, comm::deadline_in(kCheckEvery));
      }
      if (!job_) {
        return;
      }
      job = std::move(*job_);
    }
    Outcome outcome = write(folder_, job);
    const MutexLock lock(mutex_);
    job_.reset();
    outcome_ = std::move(outcome);
  }
}

}  // namespace trireme::ps
