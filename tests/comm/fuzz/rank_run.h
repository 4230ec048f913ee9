// RankRun: one rank's way through a sequence.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "board.h"
#include "buffer.h"
#include "sequence.h"
#include "trireme/comm.h"

namespace trireme::fuzz {

/// Something that this rank has begun and not yet checked.
struct Ongoing {
  const Step* step = nullptr;
  std::size_t index = 0;  ///< of the step
  Rank place = 0;         ///< of this rank in the step's group
  Buffer input{};
  Buffer output{};
  Call call{};
  bool hashed = false;  ///< its bits are compared across ranks
  Pending pending{};    ///< last, as its end must come before the buffers'
};

class RankRun {
 public:
  RankRun(World& world, const Sequence& sequence, Board& board);
  /// Throws at the first wrong result, or what the library throws.
  void run();

 private:
  void begin(std::size_t index);
  void begin_collective(std::size_t index, const Collective& call);
  void begin_message(std::size_t index, const Message& message);
  void make_groups(const NewGroups& made);
  void begin_or_run(const Side& side, std::unique_ptr<Ongoing> ongoing, Group& group);
  void finish_due(std::size_t index);
  void finish(Ongoing& ongoing);
  void check_collective(const Ongoing& ongoing, const Collective& call);
  void check_message(const Ongoing& ongoing, const Message& message);
  void prepare_buffers(Ongoing& ongoing, const Collective& call);
  void require(bool condition, const Ongoing& ongoing, const std::string& problem) const;

  World& world_;
  const Sequence& sequence_;
  Board& board_;
  std::map<int, Group> groups_;
  std::multimap<std::size_t, std::unique_ptr<Ongoing>> outstanding_;  ///< by the step of the wait
};

}  // namespace trireme::fuzz
