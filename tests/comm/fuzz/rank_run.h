// RankRun: one rank's execution of a sequence.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "board.h"
#include "ongoing.h"
#include "sequence.h"
#include "trireme/comm.h"

namespace trireme::fuzz {

class RankRun {
 public:
  /// All three must outlive it.
  RankRun(World& world, const Sequence& sequence, Board& board);
  /// Reports the first wrong result, or what the library throws, on the board and throws it.
  void run();

 private:
  void check_world() const;
  void begin(std::size_t index);
  void pause(const Step& step) const;
  void make_groups(const NewGroups& made);
  [[nodiscard]] std::unique_ptr<Ongoing> prepare_step(std::size_t index, const Group& group);
  void begin_collective(std::size_t index, const Collective& call);
  void begin_message(std::size_t index, const Message& message);
  void finish_later(std::unique_ptr<Ongoing> ongoing);
  void finish_due(std::size_t index);
  void finish(const Ongoing& ongoing);

  World& world_;
  const Sequence& sequence_;
  Board& board_;
  std::map<int, Group> groups_;
  std::multimap<std::size_t, std::unique_ptr<Ongoing>> outstanding_;  ///< by the step of the wait
};

}  // namespace trireme::fuzz
