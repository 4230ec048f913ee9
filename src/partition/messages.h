// The messages between the places of a pipeline: the task that produces a value, the task that reads it first, and when
// it is certain to have arrived. Callable from any thread.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "partition/placed.h"
#include "partition/run_order.h"
#include "trireme/pipeline.h"

namespace trireme::partition {

struct Message {
  Instance what{};
  int from = 0;  ///< places of the pipeline
  int to = 0;
  int made = -1;  ///< the task of `from` that produces it; -1: exists when the step begins
  int read = 0;   ///< the task of `to` that reads it first; its receive is posted before
  /// Its number, the same on all ranks.
  int tag = 0;
  /// The message that proves to `from` that this one's receive was posted: its receiver knows that `to` has started
  /// `read`. A sender that has waited for it need not wait for this one. -1: there is none.
  int until = -1;
};

class Messages {
 public:
  Messages(const Placed& placed, const PipelineTable& table, const RunOrder& order);

  [[nodiscard]] std::vector<Message> sent(int pipe, const Instance& what) const;
  /// The messages that this place first reads in a task, numbered as in the table; one more is for the final values.
  [[nodiscard]] std::vector<Message> received(int pipe, int task) const;

 private:
  using Known = IndexedVector<int, int>;  ///< by place: the last task that has certainly begun

  template <class Visit>
  void for_each_turn(int pipe, const Visit& visit) const;
  void find_reads();
  void find_outputs(int pipe);
  void find_updates(int pipe);
  void add_read(int pipe, int task, int from, const Instance& what);
  void find_makers();
  void set_maker(int pipe, int task, const Instance& what);
  void find_until();
  bool advance(int ahead);
  [[nodiscard]] bool can_begin(int pipe, int task, int ahead) const;
  void begin(int pipe, int task);
  [[nodiscard]] int end_of(int pipe) const;

  const Placed& placed_;
  const PipelineTable& table_;
  const RunOrder& order_;
  std::vector<Message> all_;
  std::map<std::pair<int, Instance>, std::size_t> by_reader_;
  std::map<std::pair<int, Instance>, std::vector<std::size_t>> by_maker_;
  std::map<std::pair<int, int>, std::vector<std::size_t>> by_task_;    ///< of the reader
  std::map<std::pair<int, int>, std::vector<std::size_t>> by_making_;  ///< by task of the maker
  /// By message: its sender's knowledge before the task that produced it.
  std::vector<Known> known_by_sender_;
  IndexedVector<int, Known> known_;  ///< by place, so far
  IndexedVector<int, int> begun_;    ///< likewise: tasks
  /// By place: sends whose receive may not have been posted.
  IndexedVector<int, std::vector<std::size_t>> open_;
};

}  // namespace trireme::partition
