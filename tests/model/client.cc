#include <fmt/format.h>

#include <latch>
#include <map>

#include "stream.h"

namespace breccia::model {

namespace {

std::string shown(const Slice& bytes) {
  constexpr std::size_t kShownMax = 24;
  const std::string text = Slice(bytes.data(), std::min(bytes.size(), kShownMax)).ToString(true);
  return fmt::format("{} bytes {}", bytes.size(), text);
}

}  // namespace

Client::Client(std::uint64_t seed, Universe universe, std::vector<std::string> shared,
               ReopenedStore* store, Reference* reference, Counts* counts)
    : random_(seed),
      universe_(std::move(universe)),
      shared_(std::move(shared)),
      last_shared_(shared_.size()),
      store_(store),
      reference_(reference),
      counts_(counts) {}

const std::string& Client::key_of(const Request& request) const {
  return is_shared(request) ? shared_[request.key - universe_.keys.size()]
                            : universe_.keys[request.key];
}

WriteOptions Client::write_options() {
  switch (random_.below(8)) {
    case 0:
      return {Durability::kNone};
    case 1:
      return {Durability::kSync};
    default:
      return {Durability::kDefault};
  }
}

// With several parts, the request's key is of part `part`: parts have no key in common.
Request Client::make_request(std::uint32_t part, std::uint32_t parts) {
  Request request;
  const std::uint64_t kind = random_.below(10);
  request.kind = kind < 5   ? Request::Kind::kPut
                 : kind < 7 ? Request::Kind::kDelete
                            : Request::Kind::kGet;
  if (!shared_.empty() && parts == 1 && random_.one_in(16)) {
    request.key = static_cast<std::uint32_t>(universe_.keys.size() + random_.below(shared_.size()));
  } else {
    request.key = universe_.pick(&random_);
    request.key = static_cast<std::uint32_t>((request.key / parts * parts + part) %
                                             (universe_.keys.size() / parts * parts));
  }
  if (request.kind == Request::Kind::kPut) request.value = make_value(&random_);
  return request;
}

std::uint64_t Client::batch_size(bool large) {
  if (large && random_.one_in(4)) return 65'536;
  if (random_.one_in(24)) return 1000;
  constexpr std::uint64_t kSizes[] = {1, 31, 32, 33};
  return kSizes[random_.below(4)];
}

std::string Client::run(const Work& work) {
  std::string error;
  for (std::uint64_t i = 0; i < work.actions && error.empty(); ++i) {
    error = act(work);
    if (!error.empty()) error = fmt::format("action {}: {}", i, error);
  }
  return error.empty() ? read_everything() : error;
}

std::string Client::act(const Work& work) {
  const std::uint64_t dice = random_.below(100);
  if (dice < 45) return run_batch(batch_size(work.large));
  if (dice < 80) return run_singles();
  if (dice < 88) return run_multi_get(batch_size(false));
  if (dice < 96) return run_async();
  Status status;
  if (dice < 97 && work.may_reopen) {
    status = store_->reopen(&random_);
  } else if (dice < 98) {
    status = (*store_)->SyncLog();
  } else {
    status = (*store_)->Flush();
    ++counts_->flushes;
  }
  return status.ok() ? "" : "flush, sync or reopen: " + status.ToString();
}

std::string Client::fill(const std::vector<Request>& requests, Batch* batch) {
  batch->Clear();
  for (const Request& request : requests) {
    const std::string& key = key_of(request);
    const Status status = request.kind == Request::Kind::kPut      ? batch->Put(key, request.value)
                          : request.kind == Request::Kind::kDelete ? batch->Delete(key)
                                                                   : batch->Get(key);
    if (!status.ok()) return "filling a batch: " + status.ToString();
  }
  return "";
}

// Runs the request on the reference; for a Get, compares.
std::string Client::apply(const Request& request, Status::Code code, const Slice& value) {
  const std::string& key = key_of(request);
  if (is_shared(request)) {
    if (request.kind == Request::Kind::kGet) return "";  // other clients decide, too
    last_shared_[request.key - universe_.keys.size()] = std::make_unique<Request>(request);
    return "";
  }
  if (request.kind == Request::Kind::kPut) {
    reference_->put(key, request.value);
  } else if (request.kind == Request::Kind::kDelete) {
    reference_->remove(key);
  } else {
    std::string expected;
    const Status status = reference_->get(key, &expected);
    if (status.code() != code || (status.ok() && Slice(expected) != value)) {
      return fmt::format("Get({}): expected {} {}, got code {} {}", shown(key), status.ToString(),
                         shown(expected), static_cast<int>(code), shown(value));
    }
  }
  return "";
}

std::string Client::compare(const std::vector<Request>& requests, Batch& batch) {
  std::size_t read = 0;
  std::map<std::uint32_t, const Request*> own_shared;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    const bool is_get = request.kind == Request::Kind::kGet;
    const Status::Code code = is_get ? batch.code(read) : Status::Code::kOk;
    const Slice value = is_get ? batch.value(read++) : Slice();
    std::string error = apply(request, code, value);
    if (is_shared(request)) {
      // The batch's own writes are visible to its later reads, whatever others write.
      const Request*& own = own_shared[request.key];
      if (!is_get) own = &request;
      if (is_get && own != nullptr) {
        const bool there = own->kind == Request::Kind::kPut;
        const bool as_written = there ? code == Status::Code::kOk && value == Slice(own->value)
                                      : code == Status::Code::kNotFound;
        if (!as_written) error = "a batch does not see its own write of a shared key";
      }
    }
    if (!error.empty()) {
      return fmt::format("request {} of a batch of {}: {}", i, requests.size(), error);
    }
  }
  counts_->requests += requests.size();
  return "";
}

std::string Client::run_batch(std::uint64_t size) {
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < size; ++i) requests.push_back(make_request(0, 1));
  if (random_.one_in(8)) batch_ = (*store_)->NewBatch();
  std::string error = fill(requests, &batch_);
  if (!error.empty()) return error;
  const Status status = (*store_)->Submit(write_options(), &batch_);
  if (!status.ok()) return "Submit: " + status.ToString();
  return compare(requests, batch_);
}

std::string Client::run_async() {
  constexpr std::uint32_t kBatches = 3;
  if (universe_.keys.size() < kBatches) return "";
  std::vector<Request> requests[kBatches];
  Batch batches[kBatches];
  Status statuses[kBatches];
  std::latch done(kBatches);
  std::string error;
  for (std::uint32_t part = 0; part < kBatches; ++part) {
    const std::uint64_t size = batch_size(false);
    for (std::uint64_t i = 0; i < size; ++i) {
      requests[part].push_back(make_request(part, kBatches));
    }
    const std::string fill_error = fill(requests[part], &batches[part]);
    if (error.empty()) error = fill_error;
  }
  for (std::uint32_t part = 0; part < kBatches; ++part) {
    (*store_)->SubmitAsync(write_options(), &batches[part], [&, part](const Status& status) {
      statuses[part] = status;
      done.count_down();
    });
  }
  done.wait();
  for (std::uint32_t part = 0; part < kBatches && error.empty(); ++part) {
    error = statuses[part].ok() ? compare(requests[part], batches[part])
                                : "SubmitAsync: " + statuses[part].ToString();
  }
  return error;
}

std::string Client::run_singles() {
  const std::uint64_t count = 1 + random_.below(8);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Request request = make_request(0, 1);
    const std::string& key = key_of(request);
    std::string value = "left as it was";
    Status status;
    if (request.kind == Request::Kind::kPut) {
      status = (*store_)->Put(write_options(), key, request.value);
    } else if (request.kind == Request::Kind::kDelete) {
      status = (*store_)->Delete(write_options(), key);
    } else {
      status = (*store_)->Get(key, &value);
      if (status.IsNotFound() && value != "left as it was") return "NotFound changed the value";
    }
    if (!status.ok() && request.kind != Request::Kind::kGet) return "write: " + status.ToString();
    std::string error = apply(request, status.code(), value);
    if (!error.empty()) return "single " + error;
  }
  counts_->requests += count;
  return "";
}

std::string Client::run_multi_get(std::uint64_t count) {
  std::vector<Request> requests;
  std::vector<Slice> keys;
  for (std::uint64_t i = 0; i < count; ++i) {
    requests.push_back({Request::Kind::kGet, universe_.pick(&random_), ""});
    keys.emplace_back(key_of(requests.back()));
  }
  std::vector<std::string> values;
  const std::vector<Status> statuses = (*store_)->MultiGet(keys, &values);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string error = apply(requests[i], statuses[i].code(), values[i]);
    if (!error.empty()) return fmt::format("{} of a MultiGet of {}: {}", i, count, error);
  }
  counts_->requests += count;
  return "";
}

std::string Client::read_everything() {
  std::vector<Request> requests;
  for (std::uint32_t key = 0; key < universe_.keys.size(); ++key) {
    requests.push_back({Request::Kind::kGet, key, ""});
  }
  std::string error = fill(requests, &batch_);
  if (!error.empty()) return error;
  const Status status = (*store_)->Submit(WriteOptions(), &batch_);
  if (!status.ok()) return "Submit of reads: " + status.ToString();
  error = compare(requests, batch_);
  return error.empty() ? error : "at the end, " + error;
}

}  // namespace breccia::model
