# Faults of the code that [kvcg]'s authors released, planted where ours does the same: each makes a
# program of the tests that must find it, which fails where it does not. A fault whose text is no
# longer in its file ends the configuration, so that it moves along.
#   breccia_plant(NAME FILE PROGRAM OUTCOME FILTER OLD NEW [OLD NEW]...)
# PROGRAM: `slab` or `hot`; OUTCOME: how they find it (tools/must_fail.py); FILTER: which tests are
# run.

add_library(breccia_planted_slab OBJECT tests/conformance/slab_test.cc)
add_library(breccia_planted_hot OBJECT
  tests/unit/hot/copies_test.cc tests/unit/hot/roads_test.cc tests/unit/hot/tier_test.cc)
target_compile_options(breccia_planted_hot PRIVATE ${BRECCIA_TEST_FLAGS})
foreach(tests IN ITEMS breccia_planted_slab breccia_planted_hot)
  target_link_libraries(${tests} PRIVATE breccia::breccia breccia_test_support)
endforeach()

function(breccia_plant name file program outcome filter)
  set(source "${PROJECT_SOURCE_DIR}/src/${file}")
  set(folder "${PROJECT_BINARY_DIR}/planted/${name}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  file(READ "${source}" text)
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE 5 ${last} 2)
    math(EXPR behind "${i} + 1")
    string(FIND "${text}" "${ARGV${i}}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "planted fault ${name}: src/${file} has no\n${ARGV${i}}")
    endif()
    string(REPLACE "${ARGV${i}}" "${ARGV${behind}}" text "${text}")
  endforeach()
  file(GENERATE OUTPUT "${folder}/${file}" CONTENT "${text}")
  # A header comes into what includes it, before the one that is right.
  set(compiled "${folder}/${file}")
  if(NOT file MATCHES "\\.cc$")
    set(compiled "${PROJECT_SOURCE_DIR}/src/${program}/backend.cc")
  endif()
  set(target breccia_planted_${name})
  add_executable(${target} "${compiled}" $<TARGET_OBJECTS:breccia_planted_${program}>)
  target_include_directories(${target} BEFORE PRIVATE "${folder}")
  target_link_libraries(${target} PRIVATE breccia::breccia breccia_test_support)
  breccia_add_test(planted_${name} "${Python3_EXECUTABLE}"
    "${PROJECT_SOURCE_DIR}/tools/must_fail.py" ${outcome} $<TARGET_FILE:${target}>
    "--gtest_filter=${filter}" --gtest_fail_fast)
endfunction()

# K1: a lookup that goes on to a second slab gives back a lock that is another's. The word that it
# stores may be of before, and then the lock is never given back again.
breccia_plant(K1 slab/algo/run.cuh slab fails_or_hangs "*SomeOrderExplainsEachKey/simulator" [=[
    if (is_other != 0) return false;
]=] [=[
    if (is_other != 0) return false;
    if (is_there && sight.key.slab != head) {
      group.each_lane([&](int lane) {
        if (lane == 0) exec::store_release_device(group, tail_of(head), tail.word());
      });
    }
]=])

# K2: a deletion that misses answers its neighbour, too.
breccia_plant(K2 slab/algo/run.cuh slab fails "*SomeOrderExplainsEachKey/simulator" [=[
    if (!hash::inserts(operation)) return end(group, head, tail, i, Code::kAbsent, 0);
]=] [=[
    if (operation == Operation::kDelete && i + 1 < requests.count) {
      requests.code[i + 1] = Code::kAbsent;
      if (requests.found != nullptr) requests.found[i + 1] = 0;
    }
    if (!hash::inserts(operation)) return end(group, head, tail, i, Code::kAbsent, 0);
]=])

# K3: where a put takes a free place behind the first slab, the slab's address has 32 bits.
breccia_plant(K3 slab/algo/run.cuh slab crashes "*SomeOrderExplainsEachKey/host" [=[
    Slot slot = sight.free;
]=] [=[
    Slot slot = sight.free;
    if (slot.slab != nullptr && slot.slab != head) {
      const auto address = reinterpret_cast<std::uintptr_t>(slot.slab);
      slot.slab = reinterpret_cast<Slab*>(address & 0xffff'ffff);
    }
]=])

# K4: a miss brings a copy, and is answered as absent.
breccia_plant(K4 hot/tier.cc hot fails "*HotTierAndMap*" [=[
  if (found.ok()) value->swap(found_value);
  return found;
]=] [=[
  if (lease.has_value()) return Status::NotFound();
  if (found.ok()) value->swap(found_value);
  return found;
]=])

# K5: answers have no numbers, so each is the first request's.
breccia_plant(K5 hot/tier.cc hot fails "*HotTierAndMap*:*ConcurrentBatchesAreOfOneMoment*" [=[
answers->add_value(i, value_)]=] [=[
answers->add_value(0, value_)]=])

# K6: a write of a key that has no copy yet is not told of.
breccia_plant(K6 hot/tier.cc hot fails "*HotTier*Concurrent*" [=[
  if (!way.tells(hash)) return write_below();
]=] [=[
  std::string unknown;
  if (!way.tells(hash) || copies_->find(hash, key, &unknown) == Copy::kNone) return write_below();
]=])

# K7: a change of the model does not wait for what began before.
breccia_plant(K7 hot/roads.cc hot fails "HotRoads*" [=[
  requests_.wait();
]=] [=[
]=])

# K8: a full bucket has no place for one more.
breccia_plant(K8 hot/copies.cc hot crashes "HotCopies*" [=[
  if (way < 0) way = static_cast<int>(entry->hash >> 32 & (kWays - 1));
]=] [=[
]=])

# K9: what a copy was is used for something else while others look at it.
breccia_plant(K9 hot/copies.cc hot fails "HotCopies*" [=[
  epochs_.retire(entry, [](void* block) { std::free(block); });
]=] [=[
  std::memset(entry->data() + entry->key_bytes, '0', entry->value_bytes);
]=] [=[
  if (entry->is_deleted) return Copy::kDeleted;
]=] [=[
  if (entry->is_deleted) return Copy::kDeleted;
  std::this_thread::yield();
]=])
