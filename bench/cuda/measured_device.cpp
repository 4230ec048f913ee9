#include "measured_device.h"

#include <utility>

namespace trireme {
namespace {

class MeasuredRecording : public Recording {
 public:
  MeasuredRecording(std::unique_ptr<Recording> recording, Device& device,
                    std::vector<EnqueuedStep>& steps)
      : recording_(std::move(recording)), device_(device), steps_(steps) {}

  void enqueue(Stream& stream) override {
    EnqueuedStep step{.begin = device_.make_event({.timed = true}),
                      .end = device_.make_event({.timed = true})};
    stream.record(*step.begin);
    recording_->enqueue(stream);
    stream.record(*step.end);
    step.enqueued = std::chrono::steady_clock::now();
    steps_.push_back(std::move(step));
  }

 private:
  std::unique_ptr<Recording> recording_;
  Device& device_;
  std::vector<EnqueuedStep>& steps_;  // of the device that made this
};

}  // namespace

std::unique_ptr<Recording> MeasuredDevice::record(Stream& stream,
                                                  const std::function<void()>& enqueue) {
  std::unique_ptr<Recording> recording = device_.record(stream, enqueue);
  return recording == nullptr
             ? nullptr
             : std::make_unique<MeasuredRecording>(std::move(recording), device_, steps_);
}

}  // namespace trireme
