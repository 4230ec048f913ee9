// A team: the processes of one library, kept alive between the calls requested from them.
#pragma once

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "operation.h"

namespace peers {

/// A library, or a variant of ours, in the comparison.
struct Library {
  std::string_view name;
  std::string_view program;  ///< next to peers_bench
  enum class Side { Peer, Ours } side;
  enum class Wire { Memory, Tcp } wire;
};

/// All of them, in the order of the table's columns.
[[nodiscard]] const std::vector<Library>& all_libraries();

/// Microseconds per call: the median of calls that start together on all ranks, and the mean of
/// back-to-back calls.
struct Timing {
  double isolated = 0;
  double back_to_back = 0;
};

struct Request {
  Operation operation = Operation::Allreduce;
  std::int64_t bytes = 0;
  int repeats = 0;
  double milliseconds = 0;
};

/// The user interrupted the run (Ctrl-C).
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// From now on SIGINT, SIGTERM and SIGHUP make a waiting Team throw Interrupted.
void catch_signals();
/// Throws Interrupted if one of them arrived.
void check_signals();

/// From now on, orphaned processes (ranks, when mpirun ends) become children of this one.
void adopt_orphans();
/// Waits for children to end, at most a second; call it when all teams have ended.
void bury_orphans();

/// A directory in memory for the files of a run; removed at the end.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Throws std::runtime_error, with the end of the processes' standard error, if they fail; the team
/// is then unusable. One thread uses it.
class Team {
 public:
  Team(const Library& library, int ranks, const Scratch& scratch);
  /// Ends the processes, by force if necessary.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// One check and one measurement.
  [[nodiscard]] Timing ask(const Request& request);

 private:
  void start(const std::vector<std::string>& command);
  void stop() noexcept;
  [[nodiscard]] std::string read_line(std::chrono::seconds at_most);
  [[noreturn]] void fail(const std::string& why) const;

  std::string name_;
  std::filesystem::path files_;
  pid_t process_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string unread_;
};

/// The program's path; it exists only if the library was available at build time.
[[nodiscard]] std::filesystem::path program_of(const Library& library);

/// Cores that this process may use.
[[nodiscard]] int cores();

}  // namespace peers
