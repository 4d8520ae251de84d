// SPDX-License-Identifier: Apache-2.0
#include "costmodel/traces/kineto_events.h"

#include <charconv>
#include <cmath>
#include <set>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// What a trace may hold; beyond that it is no recording of a step.
constexpr std::size_t kMaxEvents = 20'000'000, kMaxNodes = 1 << 18, kMaxMembers = 1 << 9, kMaxDepth = 16;

// Builds one value after the other from what the parser finds.
class ValueBuilder {
 public:
  explicit ValueBuilder(const std::string& place) : place_(place) {}

  [[nodiscard]] bool building() const { return !open_.empty(); }
  [[nodiscard]] const Json& value() const { return value_; }
  void key(const std::string& name) { key_ = name; }
  // Whether the value is whole.
  bool open(Json container) {
    require(open_.size() < kMaxDepth,
            "{}: an event is nested deeper than {} levels; give a trace of PyTorch's profiler.", place_, kMaxDepth);
    open_.push_back(put(std::move(container)));
    return false;
  }
  bool close() {
    open_.pop_back();
    return open_.empty();
  }
  bool add(const Json& scalar) {
    (void)put(scalar);
    return open_.empty();
  }

 private:
  Json* put(Json value) {
    if (open_.empty()) {
      nodes_ = 0;
      value_ = std::move(value);
      return &value_;
    }
    Json& into = *open_.back();
    require(++nodes_ < kMaxNodes && (into.is_array() || into.size() < kMaxMembers),
            "{}: an event has more members than an event of a trace has; give a trace of PyTorch's profiler.", place_);
    if (into.is_array()) {
      into.push_back(std::move(value));
      return &into.back();
    }
    return &(into[key_] = std::move(value));
  }

  const std::string& place_;
  std::string key_;
  Json value_;
  std::vector<Json*> open_;
  std::size_t nodes_ = 0;
};

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : brief(value); }

const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}
std::string text_at(const Json& object, const char* key) {
  const Json* value = find(object, key);
  return value == nullptr || value->is_null() ? "" : text_of(*value);
}
std::optional<std::int64_t> integer_at(const Json& object, const char* key) {
  const Json* value = find(object, key);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  return value->is_number_unsigned() && value->get<std::uint64_t>() > (std::uint64_t{1} << 62)
             ? std::nullopt
             : std::optional(value->get<std::int64_t>());
}

std::vector<std::int64_t> integers_in(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error == std::errc()) numbers.push_back(number);
    at = end == text.data() + at ? at + 1 : static_cast<std::size_t>(end - text.data());
  }
  return numbers;
}

bool all_integers(const Json& array) {
  for (const Json& entry : array)
    if (!entry.is_number_integer()) return false;
  return true;
}

void read_dims(const Json& dims, TorchOperand& operand) {
  if (!dims.is_array()) return;
  if (all_integers(dims)) {
    for (const Json& size : dims) operand.dims.push_back(size.get<std::int64_t>());
    return;
  }
  for (const Json& entry : dims)
    if (entry.is_array() && all_integers(entry)) operand.list.push_back(entry.get<std::vector<std::int64_t>>());
}

TorchCall call_of(const std::string& name, const Json& args) {
  TorchCall call;
  call.name = name;
  const Json* dims = find(args, "Input Dims");
  const Json* types = find(args, "Input type");
  const Json* values = find(args, "Concrete Inputs");
  call.has_shapes = dims != nullptr && dims->is_array() && types != nullptr && types->is_array();
  if (call.has_shapes)
    for (std::size_t i = 0; i < dims->size(); ++i) {
      TorchOperand operand;
      read_dims((*dims)[i], operand);
      if (i < types->size()) operand.type = text_of((*types)[i]);
      call.operands.push_back(std::move(operand));
    }
  if (values != nullptr && values->is_array())
    for (const Json& value : *values) call.values.push_back(text_of(value));
  return call;
}

std::optional<CollectiveArgs> collective_of(const Json& args) {
  CollectiveArgs made;
  made.name = text_at(args, "Collective name");
  if (made.name.empty()) return std::nullopt;
  made.dtype = text_at(args, "dtype");
  made.in = integer_at(args, "In msg nelems").value_or(0);
  made.out = integer_at(args, "Out msg nelems").value_or(0);
  made.group = integer_at(args, "Group size").value_or(0);
  std::vector<std::int64_t> ranks = integers_in(text_at(args, "Process Group Ranks"));
  // A long list is written in part, then where it begins and how far its ranks are apart.
  const auto start = integer_at(args, "Global rank start"), stride = integer_at(args, "Global rank stride");
  constexpr std::int64_t kMaxRanks = 1 << 20;
  if (static_cast<std::int64_t>(ranks.size()) != made.group) {
    ranks.clear();
    if (start && stride && *start >= 0 && *start<kMaxRanks&& * stride> 0 && *stride < kMaxRanks && made.group > 0 &&
        made.group < kMaxRanks)
      for (std::int64_t i = 0; i < made.group; ++i) ranks.push_back(*start + i * *stride);
  }
  made.ranks = std::move(ranks);
  return made;
}

class EventReader final : public JsonVisitor {
 public:
  explicit EventReader(const std::string& place) : place_(place), value_(place) {}

  void begin_object() override { begin(Json::object()); }
  void begin_array() override { begin(Json::array()); }
  void end_object() override { end(); }
  void end_array() override { end(); }
  void key(const std::string& name) override {
    if (value_.building())
      value_.key(name);
    else if (depth_ == 1)
      section_ = name;
  }
  void integer(std::int64_t value) override { other(value); }
  void other(const Json& value) override {
    require(depth_ > 0 && (!is_list_ || value_.building()),
            "{}: the file is JSON, but no trace; give one that has 'traceEvents'.", place_);
    if (value_.building())
      (void)value_.add(value);
    else if (depth_ == 1)
      head(value);
  }

  KinetoEvents finish() {
    require(
        seen_events_,
        "{}: the file has no 'traceEvents'; give a trace that PyTorch's profiler exported with export_chrome_trace.",
        place_);
    std::set<std::string> names;
    for (const std::int64_t id : devices_used_)
      if (const auto name = device_names_.find(id); name != device_names_.end()) names.insert(name->second);
    if (names.empty())
      for (const auto& [id, name] : device_names_) names.insert(name);
    require(names.size() <= 1, "{}: the trace mixes different devices ({}); record a run on devices of one kind.",
            place_, join({names.begin(), names.end()}, " and "));
    if (!names.empty()) events_.device = *names.begin();
    events_.libraries = join(libraries_, "; ");
    return std::move(events_);
  }

 private:
  [[nodiscard]] bool in_array_of(const char* section) const { return depth_ == 2 && section_ == section; }

  void begin(Json container) {
    const bool wanted =
        in_array_of("traceEvents") || in_array_of("deviceProperties") || (depth_ == 1 && section_ == "distributedInfo");
    if (value_.building() || wanted) {
      (void)value_.open(std::move(container));
      return;
    }
    if (depth_ == 0 && container.is_array()) {  // the events alone, as older releases and tools write them
      section_ = "traceEvents";
      seen_events_ = is_list_ = true;
      depth_ = 2;
      return;
    }
    if (depth_ == 1 && section_ == "traceEvents") seen_events_ = true;
    ++depth_;
  }
  void end() {
    if (!value_.building()) {
      --depth_;
      return;
    }
    if (!value_.close()) return;
    if (in_array_of("traceEvents"))
      event(value_.value());
    else if (in_array_of("deviceProperties"))
      device(value_.value());
    else
      distributed(value_.value());
  }

  // Members of the trace itself.
  void head(const Json& value) {
    if (section_ == "cuda_driver_version" && value.is_number_integer()) {
      const auto number = value.get<std::int64_t>();
      libraries_.push_back(fmt::format("CUDA driver {}.{}", number / 1000, number % 1000 / 10));
    }
    if (section_ == "host_name" && value.is_string()) events_.host = value.get<std::string>();
  }
  void device(const Json& properties) {
    if (!properties.is_object()) return;
    const auto id = integer_at(properties, "id");
    const std::string name = text_at(properties, "name");
    if (id && !name.empty()) device_names_[*id] = name;
  }
  void distributed(const Json& info) {
    if (!info.is_object()) return;
    events_.world_size = integer_at(info, "world_size").value_or(0);
    if (const std::string nccl = text_at(info, "nccl_version"); !nccl.empty()) libraries_.push_back("NCCL " + nccl);
  }

  void event(const Json& event) {
    ++number_;
    if (!event.is_object() || text_at(event, "ph") != "X") return;
    const std::string category = lower_case(text_at(event, "cat"));
    static const Json kNothing = Json::object();
    const Json* args = find(event, "args");
    if (args == nullptr || !args->is_object()) args = &kNothing;
    if (category == "cpu_op" || category == "operator")
      add_operator(event, *args);
    else if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset" || category == "memcpy" ||
             category == "memset")
      add_work(event, *args, category);
    else if (category.find("runtime") != std::string::npos || category.find("driver") != std::string::npos)
      add_launch(event, *args);
    else
      return;
    require(++kept_ <= kMaxEvents, "{}: the trace has more than {} events; record fewer steps.", place_, kMaxEvents);
  }

  [[nodiscard]] std::string place_of(const Json& event) const {
    return fmt::format("{}: event {} ('{}')", place_, number_, text_at(event, "name").substr(0, 60));
  }
  [[nodiscard]] double number_at(const Json& event, const char* key) const {
    const Json* value = find(event, key);
    require(value != nullptr && value->is_number(), "{}: '{}' is no number; give a trace of PyTorch's profiler.",
            place_of(event), key);
    return value->get<double>();
  }
  int thread_of(const Json& event) {
    const auto [found, is_new] = threads_.emplace(KinetoEvents::Thread{text_at(event, "pid"), text_at(event, "tid")},
                                                  static_cast<int>(threads_.size()));
    if (is_new) events_.operators.emplace_back();
    return found->second;
  }

  void add_operator(const Json& event, const Json& args) {
    KinetoEvents::Operator made;
    made.start = number_at(event, "ts");
    made.end = made.start + number_at(event, "dur");
    made.name = text_at(event, "name");
    made.external_id = integer_at(args, "External id");
    if (is_known_call(made.name)) made.call = call_of(made.name, args);
    made.collective = collective_of(args);
    events_.operators[static_cast<std::size_t>(thread_of(event))].push_back(std::move(made));
  }
  void add_launch(const Json& event, const Json& args) {
    if (const auto correlation = integer_at(args, "correlation"))
      events_.launches.emplace(*correlation, KinetoEvents::Launch{thread_of(event), number_at(event, "ts")});
  }
  void add_work(const Json& event, const Json& args, const std::string& category) {
    KinetoEvents::Work made;
    if (category.ends_with("memcpy")) made.kind = KinetoEvents::Work::Kind::Copy;
    if (category.ends_with("memset")) made.kind = KinetoEvents::Work::Kind::Set;
    const double duration = number_at(event, "dur");
    made.nanoseconds = nanoseconds_of(duration, place_of(event));
    const auto [name, is_new] = names_.emplace(text_at(event, "name"), static_cast<int>(events_.kernel_names.size()));
    if (is_new) events_.kernel_names.push_back(name->first);
    made.name = name->second;
    made.correlation = integer_at(args, "correlation");
    made.external_id = integer_at(args, "External id");
    made.collective = collective_of(args);
    if (const auto device = integer_at(args, "device")) devices_used_.insert(*device);
    events_.work.push_back(std::move(made));
  }

  std::string place_;
  ValueBuilder value_;
  std::string section_;
  int depth_ = 0;         // outside of values
  bool is_list_ = false;  // of events, without an object around it
  bool seen_events_ = false;
  std::size_t number_ = 0, kept_ = 0;
  KinetoEvents events_;
  std::map<KinetoEvents::Thread, int> threads_;
  std::map<std::string, int> names_;
  std::map<std::int64_t, std::string> device_names_;
  std::set<std::int64_t> devices_used_;
  std::vector<std::string> libraries_;
};

}  // namespace

KinetoEvents read_kineto_events(const ByteSource& bytes, const std::string& place) {
  EventReader reader(place);
  visit_json(bytes, reader, place);
  return reader.finish();
}

}  // namespace meshwright
