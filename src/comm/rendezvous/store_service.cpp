#include "comm/rendezvous/store_service.h"

#include <utility>

#include "trireme/error.h"

namespace trireme::comm {

std::vector<Answer> StoreService::handle(std::uint64_t client, Request request) {
  using What = Request::What;
  std::vector<Answer> answers;
  const auto say = [&](Reply::Status status, std::string_view body) {
    answers.push_back({.client = client, .frame = encode(request.id, status, body)});
  };
  try {
    switch (request.what) {
      case What::Set:
        table_.set(request.key, std::move(request.value));
        say(Reply::Status::Done, "");
        break;
      case What::Insert:
        say(Reply::Status::Done, table_.insert(request.key, std::move(request.value)));
        break;
      case What::Add:
        say(Reply::Status::Done, encode_number(table_.add(request.key, request.delta)));
        break;
      case What::Get:
        waiters_[request.key].push_back({.client = client, .id = request.id});
        break;
      case What::Cancel:
        forget_waiters([&](const Waiter& waiter) {
          return waiter.client == client && waiter.id == request.id;
        });
        return answers;
    }
  } catch (const Error& error) {
    say(Reply::Status::Refused, error.what());
  }
  wake(request.key, answers);
  return answers;
}

/// Answers the clients that wait for the key, if it has a value.
void StoreService::wake(const std::string& key, std::vector<Answer>& answers) {
  const StoreTable::Value value = table_.find(key);
  const auto at = waiters_.find(key);
  if (value == nullptr || at == waiters_.end()) {
    return;
  }
  for (const Waiter& waiter : at->second) {
    answers.push_back(
        {.client = waiter.client, .frame = encode(waiter.id, Reply::Status::Done, *value)});
  }
  waiters_.erase(at);
}

template <class Test>
void StoreService::forget_waiters(const Test& test) {
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    std::erase_if(at->second, test);
    at = at->second.empty() ? waiters_.erase(at) : std::next(at);
  }
}

void StoreService::forget(std::uint64_t client) {
  forget_waiters([&](const Waiter& waiter) { return waiter.client == client; });
}

std::size_t StoreService::waiting() const {
  std::size_t count = 0;
  for (const auto& [key, waiters] : waiters_) {
    count += waiters.size();
  }
  return count;
}

}  // namespace trireme::comm
