#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>

#include "fabric/libfabric/accesses.h"
#include "fabric/libfabric/engine.h"
#include "fabric/libfabric/provider.h"
#include "fabric/libfabric/watch.h"
#include "fabric/port.h"

namespace breccia::fabric::libfabric {

/// A port to other computers, by libfabric: RDMA where there is hardware for it, else TCP.
///
/// Several reads, or writes, of one call are accesses that are under way at once where hardware
/// does them, and a message for all of a peer where software does.
///
/// Bound   a peer that does not take messages holds 4 MiB of them here and 256 KiB on the way.
/// Order   that a peer has died is told within half a minute, if it was not seen before.
/// Errors  of a read or write that the provider refused is IOError, and the peer is gone: so are
///         those of regions that end meanwhile.
class LibfabricPort final : public Port {
 public:
  /// Errors  NotSupported, IOError: as Provider::open()'s. MemoryLimit.
  static Result<std::unique_ptr<LibfabricPort>> open(const Options& options);
  ~LibfabricPort() override;

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::string address() const override { return engine_->address(); }
  [[nodiscard]] TimeUs now_us() const override;
  [[nodiscard]] Result<std::unique_ptr<Region>> make_region(std::uint64_t bytes,
                                                            Access access) override;
  [[nodiscard]] Result<PeerId> connect(const std::string& address, TimeUs until) override;
  [[nodiscard]] bool is_gone(PeerId peer) const override;
  void disconnect(PeerId peer) override;
  [[nodiscard]] Status read(PeerId peer, std::span<const Read> reads, TimeUs until) override;
  [[nodiscard]] Status write(PeerId peer, std::span<const Write> writes, TimeUs until) override;
  void read_all(std::span<ReadsOf> all, TimeUs until) override;
  void write_all(std::span<WritesTo> all, TimeUs until) override;
  [[nodiscard]] Status send(PeerId peer, const Header& header, std::span<const std::byte> payload,
                            TimeUs until) override;
  [[nodiscard]] std::optional<Arrival> poll(TimeUs until) override;

 private:
  class Memory;  // a region
  class Call;
  LibfabricPort(std::unique_ptr<Engine> engine, std::unique_ptr<Watch> watch)
      : engine_(std::move(engine)), watch_(std::move(watch)) {}
  static void run(Call* call, std::deque<Accesses>* all);
  Status flush(Call* call, PeerId peer);

  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<Watch> watch_;  // ends before what it watches
};

}  // namespace breccia::fabric::libfabric
