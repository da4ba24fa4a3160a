#include "bench/key_flags.h"

#include "bench/stream.h"

namespace breccia::bench {

void KeyFlags::add_to(console::App* app) {
  app->add_option("--keys", keys,
                  "Distinct keys of all threads together; 0: as many as --num. With it fillseq "
                  "writes each key once, all threads together")
      ->range(0, 1ULL << 38)
      ->capture_default_str();
  app->add_option(
         "--key_set", key_set,
         "What keys look like: seq, db_bench's numbers; uniform, numbers mixed; ycsb, "
         "`user` and digits; prefixed, 256 prefixes before eight bytes; urls, addresses of "
         "25 to 100 bytes. --key_size says nothing to ycsb and urls")
      ->one_of({"seq", "uniform", "ycsb", "prefixed", "urls"})
      ->capture_default_str();
  app->add_option("--key_size", key_size, "Bytes of a key")
      ->range(1, kKeySizeMax)
      ->capture_default_str();
  app->add_option("--skew", skew,
                  "Choose keys by Zipf's law with this theta, below 1, popular ones anywhere; 0: "
                  "all alike")
      ->capture_default_str();
  app->add_option("--misses", misses, "Share of lookups that are for keys which are nowhere")
      ->capture_default_str();
}

Status KeyFlags::check(std::uint64_t num) const {
  if (!(skew >= 0 && skew < 1)) {
    return Status::InvalidArgument("--skew is Zipf's theta: 0 or more, and below 1");
  }
  if (!(misses >= 0 && misses <= 1)) {
    return Status::InvalidArgument("--misses is a share: 0 to 1");
  }
  return set(num).check(misses > 0);
}

}  // namespace breccia::bench
