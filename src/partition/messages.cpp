// When a send is complete. A long message completes only when its receiver has posted the receive, so a sender that
// waits too early may deadlock. But messages carry knowledge of progress: a place that has a message of task t of
// another place knows that the other has started t, and everything that the other knew before t. Followed through all
// messages, this gives, for each send, the first message back that proves that its receive was posted; waiting after
// that costs nothing.
#include "partition/messages.h"

#include <algorithm>

namespace trireme::partition {

Messages::Messages(const Placed& placed, const PipelineTable& table, const RunOrder& order)
    : placed_(placed), table_(table), order_(order) {
  find_reads();
  find_makers();
  find_until();
}

int Messages::end_of(int pipe) const {
  return static_cast<int>(table_.tasks[pipe].size());
}

std::vector<Message> Messages::sent(int pipe, const Instance& what) const {
  std::vector<Message> found;
  const auto it = by_maker_.find({pipe, what});
  if (it != by_maker_.end()) {
    for (const std::size_t number : it->second) {
      found.push_back(all_[number]);
    }
  }
  return found;
}

std::vector<Message> Messages::received(int pipe, int task) const {
  std::vector<Message> found;
  const auto it = by_task_.find({pipe, task});
  if (it != by_task_.end()) {
    for (const std::size_t number : it->second) {
      found.push_back(all_[number]);
    }
  }
  return found;
}

/// Of all tasks of a place.
template <class Visit>
void Messages::for_each_turn(int pipe, const Visit& visit) const {
  const std::vector<std::vector<Turn>>& tasks = order_.at(pipe);
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    for (const Turn& turn : tasks[task]) {
      visit(static_cast<int>(task), turn);
    }
  }
}

// Readers.

void Messages::find_reads() {
  for (int pipe = 0; pipe < table_.ranks; ++pipe) {
    for_each_turn(pipe, [&](int task, const Turn& turn) {
      for (const Read& read : order_.reads_of(pipe, turn)) {
        add_read(pipe, task, read.from, read.what);
      }
    });
    find_outputs(pipe);
    find_updates(pipe);
  }
}

/// Scalar results are on all places.
void Messages::find_outputs(int pipe) {
  for (const CopyId id : placed_.outputs) {
    if (placed_.value(id).type.shape.rank() > 0) {
      continue;
    }
    const int count = order_.multiplicity(id) == Multiplicity::PerUpdate ? order_.updates() : 1;
    for (int number = 0; number < count; ++number) {
      add_read(pipe, end_of(pipe), order_.source({}, pipe, id, number), {id, number});
    }
  }
}

/// Persistent values get their next value where they are stored.
void Messages::find_updates(int pipe) {
  for (std::size_t k = 0; k < placed_.updates.size(); ++k) {
    const CopyId id = placed_.updates[k];
    const int home = std::max(placed_.home[placed_.graph.updates()[k].target], 0);
    if (!order_.has_stage(pipe, home) || placed_.copy(id).step < 0) {
      continue;
    }
    const int number =
        order_.multiplicity(id) == Multiplicity::PerUpdate ? order_.updates() - 1 : 0;
    add_read(pipe, end_of(pipe), order_.source({}, pipe, id, number), {id, number});
  }
}

void Messages::add_read(int pipe, int task, int from, const Instance& what) {
  if (from == pipe || by_reader_.contains({pipe, what})) {
    return;
  }
  const std::size_t number = all_.size();
  by_reader_[{pipe, what}] = number;
  by_maker_[{from, what}].push_back(number);
  by_task_[{pipe, task}].push_back(number);
  Message message;
  message.what = what;
  message.from = from;
  message.to = pipe;
  message.read = task;
  message.tag = static_cast<int>(number);
  all_.push_back(message);
}

// Producers.

void Messages::find_makers() {
  for (int pipe = 0; pipe < table_.ranks; ++pipe) {
    for_each_turn(pipe, [&](int task, const Turn& turn) {
      for (const Instance& what : order_.made_by(turn)) {
        set_maker(pipe, task, what);
      }
    });
  }
}

void Messages::set_maker(int pipe, int task, const Instance& what) {
  const auto it = by_maker_.find({pipe, what});
  if (it != by_maker_.end()) {
    for (const std::size_t number : it->second) {
      all_[number].made = task;
    }
  }
}

// When the receive has been posted.

/// Visits the tasks of all places, each after the producers of its inputs.
void Messages::find_until() {
  const int places = table_.ranks;
  known_by_sender_.assign(all_.size(), Known(places, -1));
  known_.assign(places, Known(places, -1));
  begun_.assign(places, 0);
  open_.resize(places);
  for (const Message& message : all_) {
    by_making_[{message.from, message.made}].push_back(message.tag);
  }
  for (int pipe = 0; pipe < table_.ranks; ++pipe) {
    open_[pipe] = by_making_[{pipe, -1}];
  }
  while (advance(0) || advance(1)) {
  }
}

/// Advances all places as far as possible, if they may read values that others produce up to this many tasks ahead. 1
/// is for updates, which may need values of one another: such a message conveys no knowledge.
bool Messages::advance(int ahead) {
  bool moved = false;
  for (int pipe = 0; pipe < table_.ranks; ++pipe) {
    int& task = begun_[pipe];
    while (task <= end_of(pipe) && can_begin(pipe, task, ahead)) {
      begin(pipe, task);
      ++task;
      moved = true;
      if (ahead > 0) {
        return true;
      }
    }
  }
  return moved;
}

bool Messages::can_begin(int pipe, int task, int ahead) const {
  const auto it = by_task_.find({pipe, task});
  return it == by_task_.end() || std::ranges::all_of(it->second, [&](std::size_t number) {
           const Message& message = all_[number];
           return message.made < begun_[message.from] + ahead;
         });
}

/// The task's outputs convey the place's prior knowledge; then it learns from the task's inputs, and drops the sends
/// that this settles.
void Messages::begin(int pipe, int task) {
  Known& known = known_[pipe];
  known[pipe] = task;
  const std::vector<std::size_t>& made = by_making_[{pipe, task}];
  for (const std::size_t number : made) {
    known_by_sender_[number] = known;
  }
  for (const std::size_t number : by_task_[{pipe, task}]) {
    const Known& learned = known_by_sender_[number];
    std::erase_if(open_[pipe], [&](std::size_t sent) {
      Message& send = all_[sent];
      const bool settled = learned[send.to] >= send.read;
      send.until = settled ? all_[number].tag : -1;
      return settled;
    });
    for (int other = 0; other < known.count(); ++other) {
      known[other] = std::max(known[other], learned[other]);
    }
  }
  open_[pipe].insert(open_[pipe].end(), made.begin(), made.end());
}

}  // namespace trireme::partition
