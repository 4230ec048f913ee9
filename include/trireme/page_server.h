// PageServer: shows one HTML page, made anew for each request, to browsers on this machine.
//
//   trireme::PageServer server(8080);
//   server.start([] { return std::string("<!DOCTYPE html><p>hello</p>"); });
//
// It listens on 127.0.0.1 only and answers GET / and nothing else. Requests whose Host header names another address are
// refused, so that a page elsewhere cannot read it under a name of its own (DNS rebinding). One request at a time, each
// with a deadline. One thread at a time calls these functions.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace trireme {

class PageServer {
 public:
  /// Listens; 0: on any free port. Does not start a thread, so a process may fork afterwards. Throws Error(Usage) if
  /// something else listens on the port.
  explicit PageServer(int port);
  /// Ends its thread; waits for a request being answered.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// "http://127.0.0.1:8080/"
  [[nodiscard]] std::string address() const;

  /// Answers requests from now on. `page` is called on another thread, once per request; if it throws an Error, the
  /// browser shows the message. Requires that it was not called before.
  void start(std::function<std::string()> page);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
