# tests/tests.mk: the test programs, the emulators, `make test` and `make test-arm64`. tests/README.md says what each is for; every
# program prints its own results and scripts/test sums them up.

# A test program is BUILD/tests/bin/NAME and its main is tests/FOLDER/NAME.c.
BIN      := $B/tests/bin
HARNESS  := $B/tests/harness.o $B/tests/process.o # what the programs of whole/ and faults/ share
WHOLE    := $(patsubst tests/whole/%.c,%,$(wildcard tests/whole/*.c))
UNITS    := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/unit_*.c))
OTHERS   := answers asm checkop fuzz fuzz_grammar unsaid inputs sites step gpu gpu_sites batch_faults convert_faults
TEST_PROGRAMS := $(addprefix $(BIN)/,$(WHOLE) $(OTHERS) $(UNITS))
CHECKOP  := $(patsubst %.c,$B/%.o,$(wildcard tests/checkop/checkop*.c)) $B/bench/batches.o
SOLVER   := $(patsubst %,$B/quantize/%.o,hessian factor solver kernels kernels_avx2 kernels_avx512)
but_main = $(filter-out $B/$(1)/main.o,$(call objects,$(1)))
# An archive a room: a test program links the objects that it uses, so that it stays as it was when others change.
ARCHIVE  := $B/tests/lib
ROOMS    := $(addprefix $(ARCHIVE)/,core.a cpu.a hip.a convert.a engine.a cli.a quantize.a bench.a)
$(ARCHIVE)/core.a: $(CORE)
$(ARCHIVE)/cpu.a: $(CPU)
$(ARCHIVE)/hip.a: $(HIP)
$(ARCHIVE)/convert.a: $(call but_main,convert)
$(ARCHIVE)/engine.a: $(ENGINE)
$(ARCHIVE)/cli.a: $(call but_main,cli)
$(ARCHIVE)/quantize.a: $(call but_main,quantize)
$(ARCHIVE)/bench.a: $(call but_main,bench)
$(ROOMS):
	@mkdir -p $(@D)
	$(SAY) AR $@
	$(Q)rm -f $@ && $(AR) rcsT $@ $^

$(WHOLE:%=$(BIN)/%): $(BIN)/%: $B/tests/whole/%.o $(HARNESS) $(ARCHIVE)/core.a
$(BIN)/cli: $B/cli/llama_names.o $B/cli/vllm_names.o # every name is tried
$(BIN)/numbers: $(CPU) # the reference kernels
$(BIN)/capture $(BIN)/drafts $(BIN)/microbatches $(BIN)/places $(BIN)/quantize $(BIN)/quantize_gpu $(BIN)/w4a4: $(ROOMS)
$(BIN)/bench: $B/bench/llama_bench_names.o
$(BIN)/checkop: $(CHECKOP) $(SOLVER) $B/engine/backends.o $(CORE) $(CPU_ALL) $(HIP)
$(BIN)/asm: $B/tests/checkop/asm.o | $(CPU_ALL) $B/tests/checkop/asm_sample.o
$(BIN)/fuzz: $B/tests/fuzz/fuzz.o $B/tests/process.o $(ARCHIVE)/core.a
$(BIN)/fuzz_grammar: $B/tests/fuzz/fuzz_grammar.o $B/tests/fuzz/grammar_input.o $(ARCHIVE)/core.a
$(BIN)/answers: $B/tests/fuzz/answers.o $(ROOMS)
$(BIN)/unsaid: $B/tests/fuzz/unsaid.o $B/tests/fuzz/checkpoint.o $B/bench/batches.o $(HARNESS) $(ROOMS)
$(BIN)/sites: $B/tests/faults/sites.o $(HARNESS) $(ROOMS) | $(BIN)/failing.so
$(BIN)/gpu_sites: $B/tests/faults/gpu_sites.o $(HARNESS) $(ARCHIVE)/core.a | $(BIN)/failing_gpu.so
$(BIN)/failing.so $(BIN)/failing_gpu.so: $(BIN)/%.so: tests/faults/%.c
	@mkdir -p $(@D)
	$(SAY) LD $@
	$(Q)$(CC) -std=gnu11 -O1 -fPIC -shared -o $@ $<
INPUTS := $(patsubst %,$B/tests/fuzz/%.o,targets targets_text targets_files targets_run checkpoint grammar_input)
$(BIN)/inputs: $B/tests/fuzz/inputs.o $(INPUTS) $(ROOMS)
$(BIN)/gpu: $B/tests/faults/gpu.o $(HARNESS) $(ARCHIVE)/core.a
$(BIN)/step: $B/tests/faults/step.o $(HARNESS) $(ROOMS)
# The system calls and allocations of the batch mode and of the converter go through the test's own.
wrapped := open write pwrite ftruncate fdatasync fsync rename unlink clock_gettime malloc calloc realloc
$(BIN)/batch_faults: ALL_LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,$(wrapped))
$(BIN)/batch_faults: $B/tests/faults/batch_faults.o $(HARNESS) $(CORE) $(CPU) $(HIP) $(ENGINE) $(call but_main,cli)
convert_wrapped := malloc calloc realloc strdup strndup realpath pthread_create open access pread pwrite fallocate ftruncate fsync linkat rename
$(BIN)/convert_faults: ALL_LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,$(convert_wrapped))
$(BIN)/convert_faults: $B/tests/faults/convert_faults.o $(HARNESS) $(CORE) $(call but_main,convert)

$(UNITS:%=$B/tests/unit/%.o): ALL_CFLAGS += -DSHARED_DIR='"$(SHARED)"'
$(UNITS:%=$(BIN)/%): LIBS += -lcmocka
$(UNITS:%=$(BIN)/%): $(BIN)/%: $B/tests/unit/%.o $(ROOMS)
# these count allocations within a step
$(BIN)/unit_scheduler $(BIN)/unit_sched_beside $(BIN)/unit_sched_grammar $(BIN)/unit_sched_drafts $(BIN)/unit_sched_store $(BIN)/unit_replicas: ALL_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=mmap
# this one compiles grammars as slowly as it wants
$(BIN)/unit_constraint: ALL_LDFLAGS += -Wl,--wrap=grammar_open,--wrap=vocabulary_open
# this one opens no file for a while
$(BIN)/unit_cgroup: ALL_LDFLAGS += -Wl,--wrap=fopen
# this one refuses what place_bind asks the host for
$(BIN)/unit_place: ALL_LDFLAGS += -Wl,--wrap=calloc
# this one says how many multiprocessors there are
$(BIN)/unit_hip_splits: ALL_LDFLAGS += -Wl,--wrap=hip_stream_multiprocessors
# this one fails every allocation once
$(BIN)/unit_allocation_text: ALL_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

$(TEST_PROGRAMS):
	@mkdir -p $(@D)
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter-out %.a,$^) $(if $(filter %.a,$^),-Wl$(comma)--start-group $(filter %.a,$^) -Wl$(comma)--end-group) $(LIBS)

# --- the gfx906 interpreter: a libamdhip64 that executes code objects on the CPU (tests/emulators/gfx906/gfx906.h). Its loops
# over lanes are compiled twice; the second copy is for processors with AVX2, FMA and F16C.
GFX_SRC  := tests/emulators/gfx906
GFX      := $(BIN)/libamdhip64-gfx906.so
LANES    := int f32 f16
GFX_OBJS := $(patsubst %.c,$B/%.o,$(filter-out $(LANES:%=$(GFX_SRC)/lanes_%.c),$(wildcard $(GFX_SRC)/*.c))) \
            $(LANES:%=$B/$(GFX_SRC)/lanes_%_base.o)
GFX_O    := $(if $(SAN),-O1,-O3)
GFX_CC    = $(CC) $(ALL_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c
ifeq ($(MACHINE),x86_64)
GFX_OBJS += $(LANES:%=$B/$(GFX_SRC)/lanes_%_v3.o)
endif
$(filter-out $B/$(GFX_SRC)/lanes_%,$(GFX_OBJS)): ALL_CFLAGS += $(GFX_O) -fPIC -fvisibility=hidden
$B/$(GFX_SRC)/lanes_%_base.o: $(GFX_SRC)/lanes_%.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< for any processor
	$(Q)$(GFX_CC) $(GFX_O) -DLANE_TABLE=lanes_$*_base -o $@ $<
$B/$(GFX_SRC)/lanes_%_v3.o: $(GFX_SRC)/lanes_%.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< for AVX2
	$(Q)$(GFX_CC) $(GFX_O) -mavx2 -mfma -mf16c -DLANE_TABLE=lanes_$*_v3 -o $@ $<
$(GFX): $(GFX_OBJS)
	@mkdir -p $(@D)
	$(SAY) LD $@
	$(Q)$(CC) $(filter-out -pie,$(ALL_LDFLAGS)) -shared -o $@ $^ -lm

# its tests; kernels of a compiler are part of them where clang-19 is installed (it finds its linker by PATH)
GFX_TEST := $(BIN)/gfx906-test
GFX_CO   := $(if $(shell command -v clang-19),$(foreach o,O3 O0,$(BIN)/gfx906-kernels-$o.co))
$(GFX_TEST): $(patsubst %.c,$B/%.o,$(wildcard $(GFX_SRC)/test/*.c)) | $(GFX) $(GFX_CO)
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -ldl -lm
$(BIN)/gfx906-kernels-%.co: $(GFX_SRC)/test/kernels.hip Makefile
	@mkdir -p $(@D)
	$(SAY) CLANG $@
	$(Q)PATH=/usr/lib/llvm-19/bin:$$PATH clang-19 -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=gfx906 \
	  -mcode-object-version=4 -nogpuinc -nogpulib -$* -o $@ $<

# --- the kernels as host code behind a runtime library that opt4gptq-run and checkop load; for the machine that it is built on
# A sanitized build has those of the other one, whose pages without access behind each block see what a kernel does outside of it, and
# a library of its own for checkop, which runs every kernel of AMD's.
FIBERS_SRC   := tests/emulators/fibers
FIBERS_OF    := $(if $(SAN),build,$B)
FIBERS_NAMES := libhip-fibers.so libcuda-fibers-80.so libcuda-fibers-90.so
FIBERS       := $(FIBERS_NAMES:%=$(BIN)/%) $(if $(SAN),$(BIN)/libhip-fibers-sanitized.so)
# the same flags, whichever build asks for them
FIBERS_PLAIN  = $(filter-out -fsanitize% -fno-sanitize% -fno-omit-frame-pointer -U_FORTIFY% -D_FORTIFY%,$(ALL_CFLAGS))
# Kernels are found by their names, so all are visible. -g1, lines only: for names of variables gcc takes as long as for everything
# else.
FIBERS_FLAGS := -fvisibility=default -g1 -march=native -fno-strict-aliasing -fPIC
define FIBERS_CC
	@mkdir -p $(@D)
	$(SAY) CC $@
	$(Q)$(CC) $(FIBERS_PLAIN) $(FIBERS_FLAGS) $(FIBERS_FOR) -MMD -MP -c -o $@ $<
endef
# the switches between fibers and the matrix instructions, most of the time
FIBERS_FAST := $(patsubst %,$(FIBERS_OF)/fast-fibers/%.o,fibers fiber_matrix)
$(FIBERS_OF)/fast-fibers/%.o: FIBERS_FOR := -O3 -fvisibility=hidden
$(FIBERS_OF)/hip-fibers/%.o: FIBERS_FOR := -O2
# as CUDA's driver, for those with NVIDIA's matrix instructions: of sm_80, of sm_90a. What of undefined behaviour no page can see ends the
# process, and costs the compiler a quarter, the tests 1%. -O1: two thirds of the compiler's time with -O2, and tests take 3 to 8% longer.
FIBERS_CUDA := -O1 -fsanitize=shift,alignment,bounds -fsanitize-undefined-trap-on-error
$(FIBERS_OF)/cuda-fibers-80/%.o: FIBERS_FOR := -DFIBERS_CUDA=80 $(FIBERS_CUDA)
$(FIBERS_OF)/cuda-fibers-90/%.o: FIBERS_FOR := -DFIBERS_CUDA=90 $(FIBERS_CUDA)
$(FIBERS_OF)/fast-fibers/%.o: $(FIBERS_SRC)/%.c Makefile tests/tests.mk
	$(FIBERS_CC)
$(FIBERS_OF)/hip-fibers/%.o: $(FIBERS_SRC)/%.c Makefile tests/tests.mk
	$(FIBERS_CC)
$(FIBERS_OF)/cuda-fibers-80/%.o: $(FIBERS_SRC)/%.c Makefile tests/tests.mk
	$(FIBERS_CC)
$(FIBERS_OF)/cuda-fibers-90/%.o: $(FIBERS_SRC)/%.c Makefile tests/tests.mk
	$(FIBERS_CC)
FIBERS_LIBS := $(FIBERS_NAMES:%=$(FIBERS_OF)/tests/bin/%)
fibers_objects = $(patsubst %,$(FIBERS_OF)/$(1)/%.o,fiber_runtime fiber_images fiber_kernels $(2)) $(FIBERS_FAST)
$(FIBERS_OF)/tests/bin/libhip-fibers.so: $(call fibers_objects,hip-fibers)
$(FIBERS_OF)/tests/bin/libcuda-fibers-80.so: $(call fibers_objects,cuda-fibers-80,fiber_cuda)
$(FIBERS_OF)/tests/bin/libcuda-fibers-90.so: $(call fibers_objects,cuda-fibers-90,fiber_cuda)
$(FIBERS_LIBS):
	@mkdir -p $(@D)
	$(SAY) LD $@
	$(Q)$(CC) -shared $(filter-out -pie -fsanitize%,$(ALL_LDFLAGS)) -o $@ $^ -lm
ifdef SAN
-include $(wildcard $(FIBERS_OF)/*-fibers*/*.d)
$(FIBERS_NAMES:%=$(BIN)/%): $(BIN)/%: $(FIBERS_OF)/tests/bin/%
	@mkdir -p $(@D)
	$(Q)ln -srf $(CURDIR)/$< $@
# What of undefined behaviour AddressSanitizer sees anyway takes a quarter of the compiler's time and a third of the tests'. -O2 takes
# the compiler up to twice as long, more than the tests gain.
$B/hip-fibers/%.o: $(FIBERS_SRC)/%.c Makefile tests/tests.mk
	@mkdir -p $(@D)
	$(SAY) CC $@
	$(Q)$(CC) $(ALL_CFLAGS) $(FIBERS_FLAGS) -O1 -fno-sanitize=null,object-size,pointer-overflow -MMD -MP -c -o $@ $<
$(BIN)/libhip-fibers-sanitized.so: $(patsubst %,$B/hip-fibers/%.o,fiber_runtime fiber_images fiber_kernels) $(FIBERS_FAST)
	@mkdir -p $(@D)
	$(SAY) LD $@
	$(Q)$(CC) -shared $(filter-out -pie,$(ALL_LDFLAGS)) -o $@ $^ -lm
endif

# --- the variants of AVX-512, VNNI and AMX compiled for processors with AVX2 (tests/emulators/immintrin), in checkop and in a whole
# program, so that they are tested on every machine. Not sanitized: too slow. -Og: -O2 takes gcc ten times as long.
ifeq ($(MACHINE)$(SAN),x86_64)
EMULATED := avx512 vnni amx
EMULATED_OBJS := $(EMULATED:%=$B/emulated/%.o) $(filter-out $(EMULATED:%=$B/backend-cpu/%.o),$(CPU))
EMULATED_PROGRAMS := $(BIN)/checkop-emulated $(BIN)/run-emulated
$B/emulated/%.o: backend-cpu/%.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< emulated
	$(Q)$(CC) $(ALL_CFLAGS) -Og -g0 -mavx2 -mfma -mf16c -Wno-psabi -Itests/emulators/immintrin -MMD -MP -c -o $@ $<
$(BIN)/checkop-emulated: $(CHECKOP) $(SOLVER) $B/engine/backends.o $(CORE) $(EMULATED_OBJS) $(HIP)
$(BIN)/run-emulated: $(RUN) $(ENGINE) $(CORE) $(EMULATED_OBJS) $(HIP)
$(EMULATED_PROGRAMS):
	@mkdir -p $(@D)
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
endif

# --- plain C compiled for this machine's processor: the bits are the same, but without an instruction for it fmaf() is a call
ifndef SAN
NATIVE_PROGRAM := $(BIN)/run-native
$B/native/scalar.o: backend-cpu/scalar.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< native
	$(Q)$(CC) $(ALL_CFLAGS) -O2 -ftree-vectorize -march=native -MMD -MP -c -o $@ $<
$(NATIVE_PROGRAM): $(RUN) $(ENGINE) $(CORE) $B/native/scalar.o $(filter-out $B/backend-cpu/scalar.o,$(CPU)) $(HIP)
	@mkdir -p $(@D)
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
endif

# all that `make test` runs; a program without kernels has nothing for the libraries of fibers to run. They take longest.
tests:
	@scripts/deps --test
	@$(MAKE) --no-print-directory -j$$(nproc) $(if $(CLANG),$(FIBERS)) $(PROGRAMS) $(TEST_PROGRAMS) $(EMULATED_PROGRAMS) $(NATIVE_PROGRAM) $(GFX) $(GFX_TEST) $(if $(SAN)$(STATIC),,$B/$(SONAME))

$(if $(filter all,$(MAKECMDGOALS)),tests: | all)# make -j all tests: both would write the same files

test: tests
	@scripts/test $B $(SHARED) '$(T)'

# libFuzzer on strangers' inputs (tests/fuzz/targets.h), with clang's sanitizers: make fuzz T=NAME S=SECONDS, each of them without T.
# What it has tried lies in build-fuzz/corpus/NAME, what it finds in build-fuzz/found. `make fuzz-coverage`: the lines of each file
# that those inputs reach.
FUZZ    := build-fuzz
FUZZCOV := build-coverage
S       ?= 300
FUZZED  := $(BIN)/libfuzzer
$(FUZZED): $B/tests/fuzz/libfuzzer.o $(INPUTS) $(ROOMS)
	@mkdir -p $(@D)
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $(filter-out %.a,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
TARGETS = $(if $(T),$(T),$$(sed -n 's/^    {"\([a-z]*\)", fuzz_seeds.*/\1/p' tests/fuzz/targets.c))
FUZZ_MAKE = $(MAKE) --no-print-directory -j$$(nproc) CC=clang-19 CLANG=
# gcc says by this name that addresses are checked
FUZZ_SAN  = $(FUZZ_MAKE) SAN=1 B=$(FUZZ) CFLAGS='-O1 -g -w -fsanitize=fuzzer-no-link -D__SANITIZE_ADDRESS__=1'
fuzz:
	@scripts/deps --fuzz
	@$(MAKE) --no-print-directory -j$$(nproc) CLANG= $(BIN)/fuzz_grammar $(BIN)/inputs
	@$(FUZZ_SAN) $(FUZZ)/tests/bin/libfuzzer
	@for t in $(TARGETS); do \
	    mkdir -p $(FUZZ)/seeds/$$t $(FUZZ)/corpus/$$t $(FUZZ)/found && $(BIN)/inputs --target $$t --write $(FUZZ)/seeds/$$t && \
	    { [ $$t != grammar ] || $(BIN)/fuzz_grammar $(SHARED) --write $(FUZZ)/seeds/$$t; } && echo "fuzz: $$t" && \
	    $(FUZZ)/tests/bin/libfuzzer --target=$$t -max_total_time=$(S) -timeout=20 -max_len=65536 -rss_limit_mb=2500 -print_final_stats=1 \
	        -verbosity=0 -close_fd_mask=1 -artifact_prefix=$(FUZZ)/found/$$t- $(FUZZ)/corpus/$$t $(FUZZ)/seeds/$$t || exit 1; \
	done
fuzz-coverage:
	@$(FUZZ_MAKE) B=$(FUZZCOV) CFLAGS='-O1 -g -w -fprofile-instr-generate -fcoverage-mapping' LDFLAGS=-fprofile-instr-generate \
	    $(FUZZCOV)/tests/bin/libfuzzer
	@for t in $(TARGETS); do \
	    LLVM_PROFILE_FILE=$(FUZZCOV)/$$t.profraw $(FUZZCOV)/tests/bin/libfuzzer --target=$$t -runs=0 -verbosity=0 $(FUZZ)/corpus/$$t $(FUZZ)/seeds/$$t; \
	done
	llvm-profdata-19 merge -o $(FUZZCOV)/all.profdata $(FUZZCOV)/*.profraw
	llvm-cov-19 report $(FUZZCOV)/tests/bin/libfuzzer -instr-profile=$(FUZZCOV)/all.profdata | awk '$$4 + 0 > 0 { print $$1, $$10 }'

# Random cases against what others wrote (scripts/differential says what): make differential N=CASES SEED=S T=ORACLE.
N    ?= 10000
SEED ?= 1
differential:
	@$(MAKE) --no-print-directory -j$$(nproc) CLANG= $(BIN)/answers $B/opt4gptq-convert $B/opt4gptq-run
	@scripts/differential --setup $B/differential
	@$B/differential/bin/python -W ignore scripts/differential --answers $(BIN)/answers --shared $(SHARED) --cases $(N) --seed $(SEED) $(T)

# The unit programs (T=NAME: those with NAME in theirs) with clang's sanitizers, which see more than gcc's, with that of threads, and
# under valgrind, which sees what is read before it is written.
UNIT_PROGRAMS = $(or $(strip $(foreach u,$(UNITS),$(if $(or $(if $(T),,1),$(findstring $(T),$u)),tests/bin/$u))),\
                  $(error no unit program has '$(T)' in its name))
# Those without the ones that measure time, of which the tools take most.
UNTIMED = $(filter-out %/unit_growth %/unit_growth_records,$(UNIT_PROGRAMS))
# Runs each of $(3) below $(1), behind $(2); all of them, also where one fails.
define EACH_UNIT
@rc=0; for u in $(addprefix $(1)/,$(3)); do \
    if $(2) $$u >$(1)/log 2>&1; then echo "$$u: clean"; else cat $(1)/log; echo "$$u: FAILED"; rc=1; fi; \
done; exit $$rc
endef
test-clang:
	@scripts/deps --fuzz
	@$(FUZZ_SAN) $(addprefix $(FUZZ)/,$(UNIT_PROGRAMS) opt4gptq-quantize)
	$(call EACH_UNIT,$(FUZZ),,$(UNIT_PROGRAMS))
test-threads:
	@$(MAKE) --no-print-directory -j$$(nproc) CLANG= B=build-threads CFLAGS='-O1 -g -w -fsanitize=thread' LDFLAGS=-fsanitize=thread \
	    $(addprefix build-threads/,$(UNTIMED) opt4gptq-quantize)
	$(call EACH_UNIT,build-threads,TSAN_OPTIONS=halt_on_error=1,$(UNTIMED))
test-valgrind:
	@$(MAKE) --no-print-directory -j$$(nproc) CLANG= $(addprefix $B/,$(UNTIMED) opt4gptq-quantize)
	$(call EACH_UNIT,$B,valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,$(UNTIMED))

ARM := build-arm64
test-arm64:
	@if scripts/deps --arm64; then \
	    $(MAKE) --no-print-directory -j$$(nproc) $(PROGRAMS) $(BIN)/asm && \
	    $(MAKE) --no-print-directory -j$$(nproc) CC=aarch64-linux-gnu-gcc B=$(ARM) G=$B/gpu $(ARM)/opt4gptq-run $(ARM)/tests/bin/checkop \
	        $(ARM)/tests/checkop/asm_sample.o && \
	    tests/whole/arm64.sh $B $(ARM); \
	else \
	    echo "SKIP arm64: the packages for a cross build could not be installed"; echo "arm64: 0 passed, 0 failed, 1 skipped"; \
	fi

.PHONY: tests test fuzz fuzz-coverage differential test-clang test-threads test-valgrind test-arm64
