// PageServer: serves one HTML page, rendered for each request, to browsers on this machine.
//
//   trireme::PageServer server(8080);
//   server.start([] { return std::string("<!DOCTYPE html><p>hello</p>"); });
//
// It listens on 127.0.0.1 only and answers GET / and nothing else. Requests whose Host header names another address are
// rejected, to prevent DNS rebinding. One request at a time, each with a deadline. One thread at a time calls these
// functions.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace trireme {

class PageServer {
 public:
  /// Listens on the port; 0: any free port. Does not start a thread, so a process may fork afterwards. Throws
  /// Error(Usage) if the port is in use.
  explicit PageServer(int port);
  /// Stops its thread after the request in progress.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// "http://127.0.0.1:8080/"
  [[nodiscard]] std::string address() const;

  /// Starts answering requests. `page` is called on another thread, once per request; if it throws an Error, the
  /// browser shows the message. Call it once.
  void start(std::function<std::string()> page);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
