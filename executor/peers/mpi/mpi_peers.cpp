// SPDX-License-Identifier: Apache-2.0
#include "executor/peers/mpi/mpi_peers.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/errors.h"
#include "core/base/indexed_vector.h"
#include "executor/base/clock.h"
#include "executor/peers/process_watch.h"

namespace meshwright {

namespace {

using Data = std::vector<std::byte>;

void expect(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw SystemError(fmt::format("{}: MPI says '{}'", what, std::string(text.data(), static_cast<std::size_t>(length))));
}

// What goes ahead of a message's data: small data in the same MPI message, others in some of their own behind it.
struct Header {
  std::uint64_t tag, size;
};
constexpr std::size_t kSmall = std::size_t{16} << 10;
// Larger data goes in pieces that MPI sends over TCP without asking first (Open MPI: up to 64 KiB): the answer to a
// question would wait behind the data that goes the other way, and the two directions would take turns.
constexpr std::size_t kPiece = std::size_t{60} << 10;
constexpr std::size_t kUnderWay = 64;  // pieces on their way to one process
constexpr int kMatched = 64;           // pieces taken in before there is a look at anything else
constexpr std::uint64_t kFailed = ~std::uint64_t{0}, kBeat = kFailed - 1;

// How long the thread that does MPI's work rests when nothing moves: at first not at all, as an answer is often near.
constexpr int kEagerRounds = 200;
constexpr auto kShortRest = std::chrono::microseconds(20), kLongRest = std::chrono::microseconds(200);

// Until a failing process gives up telling the others.
constexpr auto kPatience = std::chrono::seconds(5);

// How often each process is heard of, and how often it is looked whether it was.
constexpr auto kBeatTime = std::chrono::seconds(1);
constexpr auto kLookTime = std::chrono::milliseconds(5);
// A process that lost another one stays as long, so that the others notice for themselves before whoever started them
// all ends them.
constexpr auto kLastStay = std::chrono::milliseconds(300);
constexpr int kLostExitCode = 4;  // of a SystemError (docs/exit-codes.md)

// What processes tell each other when they join.
struct Card {
  std::int64_t process = 0;
  std::array<char, 64> host_name{}, process_namespace{};
};
void write_text(const std::string& text, std::array<char, 64>& to) {
  std::copy_n(text.begin(), std::min(text.size(), to.size() - 1), to.begin());
}

class MpiPeers final : public Peers {
 public:
  explicit MpiPeers(Seconds patience)
      : patience_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(patience.si()))) {
    int provided = 0;
    expect(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "beginning MPI");
    if (provided < MPI_THREAD_SERIALIZED) {
      MPI_Finalize();
      throw SystemError("this MPI library takes no calls from a thread of its own; use one built with thread support.");
    }
    // A communicator of its own: other users of MPI_COMM_WORLD cannot take its messages.
    expect(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "joining");
    expect(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "joining");
    expect(MPI_Comm_rank(world_, &rank_), "joining");
    expect(MPI_Comm_size(world_, &size_), "joining");
    expect(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &on_host_), "finding hosts");
    expect(MPI_Comm_rank(on_host_, &rank_on_host_), "finding hosts");
    expect(MPI_Comm_size(on_host_, &size_on_host_), "finding hosts");
    const int first = rank_on_host_ == 0 ? 1 : 0;
    expect(MPI_Allreduce(&first, &hosts_, 1, MPI_INT, MPI_SUM, world_), "counting hosts");
    // Hosts are numbered in the order of their first processes.
    expect(MPI_Exscan(&first, &host_, 1, MPI_INT, MPI_SUM, world_), "counting hosts");
    // MPI_Exscan leaves the result of rank 0 undefined.
    if (rank_ == 0) host_ = 0;
    expect(MPI_Bcast(&host_, 1, MPI_INT, 0, on_host_), "counting hosts");
    exchange_cards();
    coming_.resize(static_cast<std::size_t>(size_));
    queues_.resize(static_cast<std::size_t>(size_));
    thread_ = std::thread([this] { work(); });
    watcher_ = std::thread([this] { watch_processes(); });
  }
  MpiPeers(const MpiPeers&) = delete;
  MpiPeers& operator=(const MpiPeers&) = delete;
  ~MpiPeers() override {
    // MPI cannot be left without the lost one, and its thread may wait for it for ever.
    if (const std::optional<Failure> failed = failure(); failed && failed->lost) {
      std::this_thread::sleep_for(kLastStay);
      std::_Exit(kLostExitCode);
    }
    watch_.stop();
    watcher_.join();
    {
      const std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    something_.notify_one();
    thread_.join();
    if (failure_ && failure_->lost) std::_Exit(kLostExitCode);
    if (abandoned_) MPI_Abort(world_, 1);  // the others cannot be told; whoever started them all ends them
    leave_together();
    MPI_Comm_free(&on_host_);
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int host() const override { return host_; }
  [[nodiscard]] int rank_on_host() const override { return rank_on_host_; }
  [[nodiscard]] int size_on_host() const override { return size_on_host_; }
  [[nodiscard]] std::vector<Place> places() const override { return places_; }
  [[nodiscard]] std::string describe() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    const std::string version(text.data(), static_cast<std::size_t>(length));
    return fmt::format("{} process{} on {} host{} joined by {}", size_, size_ == 1 ? "" : "es", hosts_,
                       hosts_ == 1 ? "" : "s", version.substr(0, version.find_first_of(",\n")));
  }

  void send(int to, std::uint64_t tag, Data data) override {
    {
      const std::lock_guard lock(mutex_);
      leaving_messages_.push_back({to, tag, std::move(data)});
    }
    something_.notify_one();
  }

  [[nodiscard]] Data receive(int from, std::uint64_t tag, const Abort& abort) override {
    for (;;) {
      // Read before the queue is searched: what arrives in between changes the value, and wait_beyond returns at once.
      const std::uint32_t seen = arrived_.value();
      abort.check();
      {
        const std::lock_guard lock(mutex_);
        auto& queue = arrived_messages_[{from, tag}];
        if (!queue.empty() && queue.front().missing == 0) {
          Data data = std::move(queue.front().data);
          queue.pop_front();
          return data;
        }
      }
      arrived_.wait_beyond(seen);
    }
  }

  void watch(Abort& abort) override {
    abort.watch(arrived_);
    const std::lock_guard lock(mutex_);
    watching_.push_back(&abort);
    if (failure_) abort.raise();
  }
  void forget(Abort& abort) override {
    const std::lock_guard lock(mutex_);
    std::erase(watching_, &abort);
  }

  void fail(const std::string& why) override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(has_failed_, true)) return;
      const auto* bytes = reinterpret_cast<const std::byte*>(why.data());
      for (int other = 0; other < size_; ++other)
        if (other != rank_) leaving_messages_.push_back({other, kFailed, Data(bytes, bytes + why.size())});
    }
    something_.notify_one();
  }
  [[nodiscard]] std::optional<Failure> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void exchange_cards() {
    Card own;
    own.process = own_process();
    write_text(own_host_name(), own.host_name);
    write_text(process_namespace(), own.process_namespace);
    std::vector<Card> all(static_cast<std::size_t>(size_));
    std::vector<int> hosts(static_cast<std::size_t>(size_));
    expect(MPI_Allgather(&own, sizeof(Card), MPI_BYTE, all.data(), sizeof(Card), MPI_BYTE, world_), "joining");
    expect(MPI_Allgather(&host_, 1, MPI_INT, hosts.data(), 1, MPI_INT, world_), "joining");
    for (int rank = 0; rank < size_; ++rank) {
      const Card& card = all[static_cast<std::size_t>(rank)];
      const int host = hosts[static_cast<std::size_t>(rank)];
      places_.push_back({host, card.host_name.data(), card.process});
      // Numbers of another namespace of processes are those of other processes here.
      if (rank != rank_ && host == host_ && card.process_namespace == own.process_namespace)
        watch_.add(rank, card.process);
    }
    heard_.assign(static_cast<std::size_t>(size_), Clock::now());
  }

  // If a process left with an error, MPI would end the others before they could report it, so all leave together. The
  // waiting processes sleep: the last one may still have work that needs the processor.
  void leave_together() {
    MPI_Request all = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(world_, &all) != MPI_SUCCESS) return;
    for (int done = 0; MPI_Test(&all, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0;)
      std::this_thread::sleep_for(kLongRest);
  }

  struct Message {
    int to;
    std::uint64_t tag;
    Data data;
  };
  struct Arrival {
    Data data;
    std::size_t missing = 0;  // bytes
  };
  struct PendingSend {
    MPI_Request request = MPI_REQUEST_NULL;
    std::shared_ptr<const Data> data;
  };
  struct Queue {
    struct WaitingMessage {
      std::shared_ptr<const Data> data;
      std::size_t sent;
    };
    std::deque<WaitingMessage> waiting;
    std::list<PendingSend> under_way;
  };
  struct PendingReceive {
    MPI_Request request = MPI_REQUEST_NULL;
    Arrival* into = nullptr;
    std::size_t size = 0;
  };
  // For one sender: the message whose header has come, and how many of its bytes have been matched.
  struct ExpectedData {
    Arrival* into = nullptr;
    std::size_t matched = 0;
  };

  // --- MPI's own thread; no other thread calls MPI while it runs ---

  [[nodiscard]] bool all_sent() const {
    return std::all_of(queues_.begin(), queues_.end(),
                       [](const Queue& queue) { return queue.waiting.empty() && queue.under_way.empty(); });
  }

  // Looks after the other processes: tells them that this one is there, and notices which is not.
  void look() {
    const Clock::time_point now = Clock::now();
    if (now - looked_ < kLookTime || size_ == 1) return;
    // This process may have been stopped itself, or have had no processor for a while: the others are given their time
    // anew.
    if (now - looked_ > kBeatTime) std::fill(heard_.begin(), heard_.end(), now);
    looked_ = now;
    if (now - beat_ < kBeatTime || failure()) return;
    beat_ = now;
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      queues_[other].waiting.push_back({std::make_shared<const Data>(header_bytes({kBeat, 0})), 0});
      if (now - heard_[static_cast<std::size_t>(other)] > patience_)
        return lose(other, fmt::format("nothing was heard of it, on {}, for {:.0f} s",
                                       places_[static_cast<std::size_t>(other)].host_name,
                                       std::chrono::duration<double>(patience_).count()));
    }
  }

  // On a thread of its own: MPI may not return to the one that calls it when a process has gone.
  void watch_processes() {
    const std::optional<int> rank = watch_.wait();
    if (!rank) return;
    const Place& place = places_[static_cast<std::size_t>(*rank)];
    lose(*rank, fmt::format("its process {} on {} has ended", place.process, place.host_name));
  }

  static Data header_bytes(const Header& header) {
    Data bytes(sizeof(header));
    std::memcpy(bytes.data(), &header, sizeof(header));
    return bytes;
  }

  void work() {
    try {
      int idle = 0;
      std::optional<std::chrono::steady_clock::time_point> until;
      for (;;) {
        look();
        // Every step must be done in each round.
        bool moved = post_sends();
        moved = end_sends() || moved;
        moved = match() || moved;
        moved = end_receives() || moved;
        std::unique_lock lock(mutex_);
        if (leaving_ && failure_ && failure_->lost) return;
        if (leaving_ && leaving_messages_.empty() && all_sent()) return;
        // A process that has failed may never take what is queued for it: leaving must not wait for that without an
        // end.
        if (leaving_ && (has_failed_ || failure_)) {
          if (!until) until = std::chrono::steady_clock::now() + kPatience;
          if (std::chrono::steady_clock::now() > *until) {
            abandoned_ = true;
            return;
          }
        }
        idle = moved ? 0 : idle + 1;
        // New messages are posted before this thread rests.
        if (!leaving_messages_.empty()) continue;
        if (idle > kEagerRounds) {
          something_.wait_for(lock, all_sent() && receiving_.empty() ? kLongRest : kShortRest);
        } else if (idle > 0) {
          lock.unlock();
          std::this_thread::yield();
        }
      }
    } catch (const std::exception& error) {
      abandoned_ = true;
      note_failure(rank_, error.what());
    }
  }

  // Posts the next pieces of waiting messages, up to the number that may be under way to one process.
  bool post_sends() {
    std::deque<Message> messages;
    {
      const std::lock_guard lock(mutex_);
      messages.swap(leaving_messages_);
    }
    for (Message& message : messages) {
      const Header header{message.tag, message.data.size()};
      // A small message travels with its header: one message of MPI in the place of two.
      const std::size_t inside = header.size <= kSmall ? message.data.size() : 0;
      Data first(sizeof(header) + inside);
      std::memcpy(first.data(), &header, sizeof(header));
      if (inside > 0) std::memcpy(first.data() + sizeof(header), message.data.data(), inside);
      auto& queue = queues_[message.to];
      queue.waiting.push_back({std::make_shared<const Data>(std::move(first)), 0});
      if (header.size > kSmall) queue.waiting.push_back({std::make_shared<const Data>(std::move(message.data)), 0});
    }
    bool posted = !messages.empty();
    for (int to = 0; to < queues_.count(); ++to) {
      Queue& queue = queues_[to];
      while (!queue.waiting.empty() && queue.under_way.size() < kUnderWay) {
        // The pieces of one message are never mixed with those of the next: the receiver counts bytes to find its end.
        auto& [data, sent] = queue.waiting.front();
        const std::size_t piece = std::min(kPiece, data->size() - sent);
        PendingSend& sending = queue.under_way.emplace_back();
        sending.data = data;
        expect(MPI_Isend(data->data() + sent, static_cast<int>(piece), MPI_BYTE, to, 0, world_, &sending.request),
               "sending");
        sent += piece;
        if (sent == data->size()) queue.waiting.pop_front();
        posted = true;
      }
    }
    return posted;
  }

  static bool is_done(MPI_Request& request, const char* what) {
    int done = 0;
    expect(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    return done != 0;
  }

  bool end_sends() {
    std::size_t ended = 0;
    for (Queue& queue : queues_)
      ended += std::erase_if(queue.under_way, [](PendingSend& sending) { return is_done(sending.request, "sending"); });
    return ended > 0;
  }

  bool match() {
    int matched = 0;
    while (matched < kMatched && match_one()) ++matched;
    return matched > 0;
  }

  bool match_one() {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    // MPI matches the messages of one sender in the order of their sends, and a matched probe takes one of them.
    expect(MPI_Improbe(MPI_ANY_SOURCE, 0, world_, &found, &message, &status), "receiving");
    if (found == 0) return false;
    int count = 0;
    expect(MPI_Get_count(&status, MPI_BYTE, &count), "receiving");
    const auto size = static_cast<std::size_t>(count);
    heard_[static_cast<std::size_t>(status.MPI_SOURCE)] = Clock::now();
    ExpectedData& coming = coming_[status.MPI_SOURCE];
    if (coming.into == nullptr) {
      // A header. Received at once: it says where the next pieces of this sender belong.
      Data first(size);
      expect(MPI_Mrecv(first.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE), "receiving");
      begin_arrival(status.MPI_SOURCE, first);
      return true;
    }
    PendingReceive& receiving = receiving_.emplace_back();
    receiving.into = coming.into;
    receiving.size = size;
    expect(MPI_Imrecv(coming.into->data.data() + coming.matched, count, MPI_BYTE, &message, &receiving.request),
           "receiving");
    coming.matched += size;
    // All bytes are matched, though not all have arrived: the sender's next message is a header.
    if (coming.matched == coming.into->data.size()) coming = {};
    return true;
  }

  void begin_arrival(int from, const Data& first) {
    Header header{};
    MW_CHECK(first.size() >= sizeof(header), "process {} sent {} bytes where a header is awaited", from, first.size());
    std::memcpy(&header, first.data(), sizeof(header));
    const std::byte* small = first.data() + sizeof(header);
    if (header.tag == kBeat) return;
    if (header.tag == kFailed) {
      const auto* text = reinterpret_cast<const char*>(small);
      return note_failure(from, std::string(text, std::min<std::size_t>(header.size, first.size() - sizeof(header))));
    }
    {
      const std::lock_guard lock(mutex_);
      Arrival& arriving = arrived_messages_[{from, header.tag}].emplace_back();
      if (header.size > kSmall) {
        arriving.data.resize(header.size);
        arriving.missing = header.size;
        coming_[from] = {&arriving, 0};
        return;
      }
      arriving.data.assign(small, small + header.size);
    }
    arrived_.advance();
  }

  // Pieces end in any order; a message is whole when all have.
  bool end_receives() {
    bool ended = false, whole = false;
    for (auto at = receiving_.begin(); at != receiving_.end();) {
      if (!is_done(at->request, "receiving")) {
        ++at;
        continue;
      }
      {
        const std::lock_guard lock(mutex_);
        at->into->missing -= at->size;
        whole |= at->into->missing == 0;
      }
      at = receiving_.erase(at);
      ended = true;
    }
    if (whole) arrived_.advance();
    return ended;
  }

  void lose(int rank, const std::string& why) { note_failure(rank, why, true); }
  void note_failure(int rank, const std::string& why, bool lost = false) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = Failure{rank, why, lost};
    for (Abort* abort : watching_) abort->raise();
    arrived_.advance();
  }

  MPI_Comm world_ = MPI_COMM_NULL, on_host_ = MPI_COMM_NULL;
  const Clock::duration patience_;
  std::vector<Place> places_;             // [rank]
  ProcessWatch watch_;                    // of this host's
  std::vector<Clock::time_point> heard_;  // [rank] when something last came from it
  Clock::time_point looked_ = Clock::now(), beat_ = Clock::now();
  int rank_ = 0, size_ = 1, rank_on_host_ = 0, size_on_host_ = 1, hosts_ = 1, host_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable something_;  // to do for the thread
  Signal arrived_;
  std::deque<Message> leaving_messages_;
  std::map<std::pair<int, std::uint64_t>, std::deque<Arrival>> arrived_messages_;  // by sender and tag
  std::vector<Abort*> watching_;
  std::optional<Failure> failure_;
  bool has_failed_ = false, leaving_ = false, abandoned_ = false;

  IndexedVector<int, Queue> queues_;  // [receiver]
  std::list<PendingReceive> receiving_;
  IndexedVector<int, ExpectedData> coming_;  // [sender]
  std::thread thread_, watcher_;
};

}  // namespace

std::unique_ptr<Peers> join_mpi(Seconds patience) { return std::make_unique<MpiPeers>(patience); }

}  // namespace meshwright
