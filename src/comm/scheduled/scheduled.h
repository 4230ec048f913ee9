// Scheduled: a collective executed with the messages of a Schedule, over any transport.
//
// The executor assigns every block a place in this rank's memory: where it starts (the input), and
// where it lands (the output, or scratch for blocks that only pass through). Arriving data is
// combined with the block's current value straight into where it lands, so the input is never
// copied first. A rank enters a step when its own messages of the previous step are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes_moved.h"
#include "base/indexed_vector.h"
#include "comm/direct/direct.h"
#include "comm/kernels/kernels.h"
#include "comm/op/op.h"
#include "comm/op/scratch.h"
#include "comm/scheduled/context.h"
#include "comm/wire/geometry.h"
#include "comm/wire/mailbox.h"

namespace trireme::comm {

class ScheduledOp : public Op {
 public:
  /// All arguments and the call's buffers must live until it is done. `part` distinguishes the
  /// messages of one operation's parts.
  ScheduledOp(const ScheduledContext& context, const Call& call, const Geometry& geometry,
              const Record& record, const Schedule& schedule, std::uint64_t part = 0);
  ~ScheduledOp() override;
  ScheduledOp(const ScheduledOp&) = delete;
  ScheduledOp& operator=(const ScheduledOp&) = delete;

  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;
  void expire(Seconds stuck) override;

 private:
  /// A receive and the previous one in the step that touches the same block, if any.
  struct Arrival {
    Incoming message;
    std::vector<Block> blocks;
    const Incoming* after = nullptr;
    bool posted = false;
  };

  void prepare();
  void widen();
  void narrow();
  void begin_step();
  void add_send(const Message& message);
  void add_receive(const Message& message);
  [[nodiscard]] bool post_receives();
  [[nodiscard]] bool step_done();
  [[nodiscard]] std::uint64_t bytes_moved() const;
  [[nodiscard]] bool place_own();
  void finish();
  void finish_block(Block block);
  void cancel_all();

  [[nodiscard]] bool is_missing(Rank place) const;
  [[nodiscard]] std::string text() const;

  [[nodiscard]] Key key() const;
  [[nodiscard]] Extent extent(Block block) const;
  [[nodiscard]] std::size_t bytes_of(std::int64_t elements) const {
    return elements * element_bytes_;
  }
  [[nodiscard]] const std::byte* first_place(Block block) const;
  [[nodiscard]] std::byte* landing_place(Block block);
  [[nodiscard]] std::byte* result_place(Block block);
  [[nodiscard]] bool is_mine(Block block) const;
  [[nodiscard]] std::byte* passing_place(Block block);

  const ScheduledContext& context_;
  const Call& call_;
  const Geometry& geometry_;
  const Record& record_;
  const Schedule& schedule_;
  const Rank me_;
  const std::uint64_t part_;

  Call barrier_{};
  Geometry no_data_{};
  /// Checks that all agree, if ranks see one another's memory.
  std::unique_ptr<DirectOp> handshake_;

  Scratch scratch_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::int64_t element_bytes_ = 1;
  Combine combine_{};
  bool wide_ = false;  ///< f16 and bf16 are combined, and travel, as f32
  IndexedVector<Block, const std::byte*> current_;  ///< by block: its present value here
  IndexedVector<Block, std::byte*> passing_;        ///< by block: its scratch, once it needed some
  std::byte* whole_scratch_ = nullptr;

  bool prepared_ = false;
  std::size_t step_ = 0;
  std::uint64_t bytes_moved_ = 0;
  Block own_block_ = 0;  ///< blocks below this one are in the result, as far as this rank had them
  std::int64_t own_bytes_ = 0;  ///< bytes of this one done so far
  std::deque<Outgoing> sends_;
  std::deque<Arrival> receives_;
};

}  // namespace trireme::comm
