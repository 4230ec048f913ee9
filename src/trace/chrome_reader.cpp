// Parses the output of chrome_writer.cpp. A SAX parser, so that a large file never becomes a tree
// of values; numbers arrive as text, so that times stay exact.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "trace/chrome_format.h"
#include "trace/chrome_time.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

constexpr std::string_view kWhat = "trace";

/// One raw event of the file: its fields by name, numbers as text.
class Event {
 public:
  enum class Type { Number, Text };

  explicit Event(std::int64_t number) : number_(number) {}

  std::vector<TraceArg>& args() { return args_; }

  void add_field(const std::string& name, Type type, std::string value) {
    if (find(name) != nullptr) {
      fail(fmt::format("field {} is given twice", in_quotes(name)));
    }
    fields_.push_back({name, type, std::move(value)});
  }

  [[nodiscard]] const std::string& text(std::string_view name) const {
    return require(name, Type::Text);
  }

  [[nodiscard]] std::int64_t integer(std::string_view name) const {
    const std::optional<std::int64_t> value = parse_integer(require(name, Type::Number));
    if (!value) {
      fail(fmt::format("'{}' is not an integer", name));
    }
    return *value;
  }

  [[nodiscard]] Seconds time(std::string_view name) const {
    const std::optional<Seconds> value = parse_microseconds(require(name, Type::Number));
    if (!value) {
      fail(fmt::format("'{}' is not a time in microseconds", name));
    }
    return *value;
  }

  /// The single entry that "args" must have, of type T.
  template <class T>
  [[nodiscard]] const T& only_arg(std::string_view key) const {
    const T* value =
        args_.size() == 1 && args_[0].key == key ? std::get_if<T>(&args_[0].value) : nullptr;
    if (value == nullptr) {
      fail(fmt::format("'args' must hold just '{}', of the right type", key));
    }
    return *value;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::Input, fmt::format("{}: event {}: {}", kWhat, number_, problem));
  }

 private:
  struct Field {
    std::string name;
    Type type;
    std::string value;
  };

  [[nodiscard]] const Field* find(std::string_view name) const {
    const auto at = std::find_if(fields_.begin(), fields_.end(),
                                 [&](const Field& f) { return f.name == name; });
    return at == fields_.end() ? nullptr : &*at;
  }

  [[nodiscard]] const std::string& require(std::string_view name, Type type) const {
    const Field* field = find(name);
    if (field == nullptr) {
      fail(fmt::format("'{}' is missing", name));
    }
    if (field->type != type) {
      fail(fmt::format("'{}' is not a {}", name, type == Type::Text ? "text" : "number"));
    }
    return field->value;
  }

  std::int64_t number_;
  std::vector<Field> fields_;
  std::vector<TraceArg> args_;
};

/// Builds a trace, event by event.
class Builder {
 public:
  Trace trace;

  void add(Event& event) {
    const std::string& phase = event.text("ph");
    if (phase == kMetadata) {
      add_name(event);
    } else if (phase == kSpan) {
      add_span(event);
    } else if (phase == kCounter) {
      add_counter(event);
    } else if (phase == kFlowStart) {
      add_flow_start(event);
    } else if (phase == kFlowEnd) {
      add_flow_end(event);
    } else {
      event.fail(fmt::format("unknown phase {}", in_quotes(phase)));
    }
  }

  Trace finish() {
    if (flow_open_) {
      throw Error(ErrorKind::Input, fmt::format("{}: the last flow has no end", kWhat));
    }
    if (chrome_process_ids(trace.tracks) != process_ids_) {
      throw Error(ErrorKind::Input,
                  fmt::format("{}: the numbers and names of processes do not match", kWhat));
    }
    require_valid(trace, ErrorKind::Input, kWhat);
    return std::move(trace);
  }

 private:
  void add_name(const Event& event) {
    const std::string& what = event.text("name");
    const auto& name = event.only_arg<std::string>("name");
    const std::int64_t process = event.integer("pid");
    if (what == kProcessName) {
      processes_[process] = name;
    } else if (what == kThreadName) {
      if (event.integer("tid") != static_cast<std::int64_t>(trace.tracks.size()) + 1) {
        event.fail("threads are not numbered 1, 2, … in order");
      }
      const auto at = processes_.find(process);
      if (at == processes_.end() || process < 1 ||
          process > std::numeric_limits<std::int32_t>::max()) {
        event.fail(fmt::format("process {} has no name yet", process));
      }
      trace.add_track(at->second, name);
      process_ids_.push_back(static_cast<std::int32_t>(process));
    } else {
      event.fail(fmt::format("unknown metadata {}", in_quotes(what)));
    }
  }

  [[nodiscard]] TrackId track_of(const Event& event) const {
    const std::int64_t thread = event.integer("tid");
    if (thread < 1 || thread > static_cast<std::int64_t>(trace.tracks.size())) {
      event.fail(fmt::format("thread {} has no name yet", thread));
    }
    if (event.integer("pid") != process_ids_[thread - 1]) {
      event.fail(fmt::format("thread {} belongs to another process", thread));
    }
    return {static_cast<std::int32_t>(thread - 1)};
  }

  void add_span(Event& event) {
    trace.spans.push_back({.track = track_of(event),
                           .name = event.text("name"),
                           .category = event.text("cat"),
                           .start = event.time("ts"),
                           .duration = event.time("dur"),
                           .args = std::move(event.args())});
  }

  void add_counter(const Event& event) {
    trace.counters.push_back({.track = track_of(event),
                              .name = event.text("name"),
                              .time = event.time("ts"),
                              .value = event.only_arg<double>("value")});
  }

  void add_flow_start(const Event& event) {
    if (flow_open_) {
      event.fail("the flow before it has no end");
    }
    trace.flows.push_back({.from = {event.only_arg<std::int64_t>("span")}, .to = {}});
    flow_open_ = true;
  }

  void add_flow_end(const Event& event) {
    if (!flow_open_) {
      event.fail("it ends a flow that did not start");
    }
    trace.flows.back().to = {event.only_arg<std::int64_t>("span")};
    flow_open_ = false;
  }

  std::map<std::int64_t, std::string> processes_;
  std::vector<std::int32_t> process_ids_;
  bool flow_open_ = false;
};

/// Tracks the position in the file's structure, token by token.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Trace finish() {
    if (!events_seen_) {
      fail("missing list \"traceEvents\"");
    }
    return builder_.finish();
  }

  bool null() override { fail(fmt::format("{} is null", in_quotes(key_))); }
  bool boolean(bool /*value*/) override {
    fail(fmt::format("{} is true or false", in_quotes(key_)));
  }
  bool binary(binary_t& /*value*/) override { fail("binary data"); }

  bool number_integer(number_integer_t value) override {
    return number(value, [&] { return fmt::format("{}", value); });
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(fmt::format("{} is {}, more than 63 bits", in_quotes(key_), value));
    }
    return number(static_cast<std::int64_t>(value), [&] { return fmt::format("{}", value); });
  }

  bool number_float(number_float_t value, const string_t& text) override {
    return number(value, [&] { return text; });
  }

  bool string(string_t& value) override {
    switch (place_) {
      case Place::Document:
        return document_text(value);
      case Place::About:
        return about_text(value);
      case Place::Details:
        builder_.trace.details.push_back({key_, std::move(value)});
        return true;
      case Place::Event:
        event_.add_field(key_, Event::Type::Text, std::move(value));
        return true;
      case Place::Args:
        event_.args().push_back({key_, std::move(value)});
        return true;
      default:
        fail_here("a text");
    }
  }

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::Outside) {
      place_ = Place::Document;
    } else if (place_ == Place::Document && key_ == "otherData") {
      place_ = Place::About;
    } else if (place_ == Place::About && key_ == "details") {
      place_ = Place::Details;
    } else if (place_ == Place::Events) {
      event_ = Event(++event_count_);
      place_ = Place::Event;
    } else if (place_ == Place::Event && key_ == "args") {
      place_ = Place::Args;
    } else {
      fail_here("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    if (place_ == Place::Event) {
      static const std::vector<std::string> known{"ph",   "pid", "tid",  "ts", "dur",
                                                  "name", "cat", "args", "id", "bp"};
      if (std::find(known.begin(), known.end(), key_) == known.end()) {
        fail(fmt::format("event {}: unknown field {}", event_count_, in_quotes(key_)));
      }
    }
    return true;
  }

  bool end_object() override {
    switch (place_) {
      case Place::Args:
        place_ = Place::Event;
        break;
      case Place::Event:
        builder_.add(event_);
        place_ = Place::Events;
        break;
      case Place::Details:
        place_ = Place::About;
        break;
      case Place::About:
        place_ = Place::Document;
        break;
      default:
        place_ = Place::Outside;
    }
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (!ours_ && (place_ == Place::Outside || key_ == "traceEvents")) {
      fail(fmt::format(
          "not a trace that Trireme wrote: it does not begin with otherData.format \"{}\"",
          kChromeFormat));
    }
    if (place_ != Place::Document || key_ != "traceEvents" || events_seen_) {
      fail_here("a list");
    }
    events_seen_ = true;
    place_ = Place::Events;
    return true;
  }

  bool end_array() override {
    place_ = Place::Document;
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    throw_json_error(kWhat, error);
  }

 private:
  enum class Place { Outside, Document, About, Details, Events, Event, Args };

  [[noreturn]] static void fail(const std::string& problem) {
    throw Error(ErrorKind::Input, fmt::format("{}: {}", kWhat, problem));
  }

  [[noreturn]] void fail_here(std::string_view what) const {
    const std::string where =
        event_count_ > 0 ? fmt::format("event {}", event_count_) : "the document";
    fail(fmt::format("{}: {} cannot stand at {}", where, what, in_quotes(key_)));
  }

  template <class T, class MakeText>
  bool number(T value, MakeText make_text) {
    switch (place_) {
      case Place::Details:
        builder_.trace.details.push_back({key_, value});
        return true;
      case Place::Event:
        event_.add_field(key_, Event::Type::Number, make_text());
        return true;
      case Place::Args:
        event_.args().push_back({key_, value});
        return true;
      default:
        fail_here("a number");
    }
  }

  bool document_text(const std::string& /*value*/) {
    if (key_ != "displayTimeUnit") {
      fail_here("a text");
    }
    return true;
  }

  bool about_text(std::string& value) {
    if (key_ == "format" && value == kChromeFormat) {
      ours_ = true;
    } else if (key_ == "kind" && value == to_text(TraceKind::Predicted)) {
      builder_.trace.kind = TraceKind::Predicted;
    } else if (key_ == "kind" && value == to_text(TraceKind::Measured)) {
      builder_.trace.kind = TraceKind::Measured;
    } else if (key_ == "title") {
      builder_.trace.title = std::move(value);
    } else {
      fail(fmt::format("otherData: {} cannot be {}", in_quotes(key_), in_quotes(value)));
    }
    return true;
  }

  Place place_ = Place::Outside;
  std::string key_;
  bool ours_ = false;
  bool events_seen_ = false;
  std::int64_t event_count_ = 0;
  Event event_{0};
  Builder builder_;
};

}  // namespace

Trace parse_trace(std::string_view text) {
  Reader reader;
  (void)nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return reader.finish();
}

}  // namespace trireme
