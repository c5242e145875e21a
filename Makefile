# make             build/opt4gptq-run, build/opt4gptq-convert and build/opt4gptq-bench
# make demo        install what is missing, build, convert the demo checkpoint, stream a completion
# make test        install what is missing, build, test; SAN=1: with AddressSanitizer and UBSan, in build-san/;
#                  T=NAME: only the test programs whose command has NAME in it
# make static      the three programs without shared libraries, for any Linux of this processor; CPU only, in build-static/
# make test-arm64  cross-build for arm64 and compare it under qemu-user with this machine's build (x86-64 only)
# make install PREFIX=/usr/local       make clean       V=1: show every command
ifeq ($(origin CC),default)
CC      := gcc
endif
PREFIX  ?= /usr/local
SHARED  ?= ../shared
VERSION := 0.1
STATIC  := $(if $(STATIC)$(filter -static%,$(LDFLAGS)),1)
B       := $(if $(SAN),build-san,$(if $(STATIC),build-static,build))
CFLAGS  ?= -O2 -g
Q       := $(if $(V),,@)
SAY     := @$(if $(V),:,echo ' ')

# One line instead of a compiler's complaints; make demo and make test install what is missing themselves.
ifeq ($(CC),gcc)
MISSING := $(if $(filter-out demo test test-arm64 clean,$(or $(MAKECMDGOALS),all)),$(shell scripts/deps --missing))
$(if $(strip $(MISSING)),$(error not installed: $(MISSING). Run scripts/deps))
endif

MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
# What a program that reads strangers' files is built with (tests/hardening.sh checks it); _FORTIFY_SOURCE needs optimization and
# would hide overflows from the sanitizers.
HARDEN_CFLAGS  := -fPIE -fstack-protector-strong $(if $(SAN),,$(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN_LDFLAGS := -pie -Wl,-z,relro,-z,now,-z,noexecstack
ifeq ($(MACHINE),x86_64)
HARDEN_CFLAGS  += -fcf-protection
else ifeq ($(MACHINE),aarch64)
HARDEN_CFLAGS  += -mbranch-protection=standard
endif

ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
              -ffp-contract=off -fno-math-errno -pthread -I. -DOPT4GPTQ_VERSION='"$(VERSION)"' $(HARDEN_CFLAGS) $(CFLAGS)
ALL_LDFLAGS := -pthread $(HARDEN_LDFLAGS) $(LDFLAGS)
# A static program cannot load a GPU's runtime library: no kernels, and no_loader.c in place of the dynamic loader.
ifdef STATIC
CLANG       :=
ALL_CFLAGS  += -Ddlopen=no_dlopen -Ddlsym=no_dlsym -Ddlerror=no_dlerror
ALL_LDFLAGS := -pthread -static-pie $(filter-out -pie,$(HARDEN_LDFLAGS)) $(filter-out -static%,$(LDFLAGS))
endif
ifdef SAN
ALL_CFLAGS  += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ALL_LDFLAGS += -fsanitize=address,undefined
endif
# Static where Debian ships the archive: the binary needs libc and libm and nothing else on the node it is copied to.
LIBS := -Wl,-Bstatic -ljansson -lpcre2-8 -lutf8proc -lz $(if $(STATIC),,-Wl,-Bdynamic) -lm

comma := ,
objects = $(patsubst %.c,$B/%.o,$(wildcard $(1)/*.c $(1)/*/*.c)) # a room and its closets
CORE    := $(call objects,core)
CPU     := $(call objects,backend-cpu)
CPU_ALL := $(CPU)
# In a sanitized build the rungs of checkop, which runs every shape, are sanitized; whole models would take ten times as long
# with them, so the other programs get them as they are.
RUNGS   := ref scalar avx2 avx512 vnni amx neon dotprod
CPU     := $(if $(SAN),$(filter-out $(RUNGS:%=$B/backend-cpu/%.o),$(CPU)) $(RUNGS:%=$B/fast/backend-cpu/%.o),$(CPU))
HIP     := $(filter-out $(if $(STATIC),,%/no_loader.o),$(call objects,backend-hip))
RUN     := $(call objects,cli)
CONVERT := $(call objects,convert)
BENCH   := $(call objects,bench)
PROGRAMS := $B/opt4gptq-run $B/opt4gptq-convert $B/opt4gptq-bench

all: $(PROGRAMS)

$B/opt4gptq-run: $(RUN) $(CORE) $(CPU) $(HIP)
$B/opt4gptq-convert: $(CONVERT) $(CORE)
$B/opt4gptq-bench: $(BENCH) $(CORE) $(CPU) $(HIP)
$(PROGRAMS):
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# Loops of the CPU kernels are written for the vectorizer; each rung may use the instructions that it tests for.
# (Sanitizers and -O3 together take gcc minutes for one file.)
$B/backend-cpu/%.o: ALL_CFLAGS += $(if $(SAN),-O1,-O3)
$B/fast/backend-cpu/%.o: ALL_CFLAGS += -O3
rung = $(foreach r,$(1),$B/backend-cpu/$r.o $B/fast/backend-cpu/$r.o)
$B/bench/probe_kernels.o: ALL_CFLAGS += -O3 # the loops of the probes must stay in registers
ifeq ($(MACHINE),x86_64)
$(call rung,avx2) $B/tests/asm_sample.o: ALL_CFLAGS += -mavx2 -mfma -mf16c
$(call rung,avx512 vnni amx): ALL_CFLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
$(call rung,vnni): ALL_CFLAGS += -mavx512vnni
$(call rung,amx): ALL_CFLAGS += -mamx-tile -mamx-int8
else ifeq ($(MACHINE),aarch64)
# gcc 12's first scheduling pass moves loads of the register blocks so far ahead that they spill.
$(call rung,neon dotprod): ALL_CFLAGS += -fno-schedule-insns
$(call rung,dotprod): ALL_CFLAGS += -march=armv8.2-a+dotprod
endif

# --- GPU kernels: one source, a code object for each AMD architecture and PTX for NVIDIA, embedded in opt4gptq-run.
# Without clang-19 the backend is built without them and says so.
ifndef STATIC
CLANG       := $(shell command -v clang-19)
endif
CLANG_DIR   := $(if $(CLANG),$(dir $(shell readlink -f $(CLANG))))
GPU_ARCHS   := gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1201
PTX_ARCHS   := sm_70 sm_80 sm_90a
PTX_sm_70   := ptx63
PTX_sm_80   := ptx78
PTX_sm_90a  := ptx80
GPU_SOURCES := $(wildcard backend-hip/kernels/*)
GPU_FLAGS   := -O3 -ffp-contract=off -fno-strict-aliasing -Wall -Wextra -Werror -Wno-unused-function -I.
# a sanitized build has no kernels of its own
G           := $(if $(SAN),build,$B)/gpu
IMAGES      := $(if $(CLANG),$(GPU_ARCHS:%=$G/%.co) $(PTX_ARCHS:%=$G/%.ptx))
ifdef CLANG
$B/backend-hip/hip_images.o: ALL_CFLAGS += -DHIP_IMAGES='"$G"'
$B/backend-hip/hip_images.o: $(IMAGES) $G/gfx906.tsv $G/sources
ifdef SAN
$B/backend-hip/hip_images.o: | $B/gpu
$B/gpu:
	@mkdir -p $B
	$(Q)ln -s ../$G $@
endif
else ifndef STATIC
all: no-kernels
no-kernels: ; @echo 'note: no clang-19: the GPU kernels are left out of this build (scripts/deps --hip installs it)'
endif

# clang finds the linker of its own version by PATH only
$G/%.co: $(GPU_SOURCES) Makefile
	@mkdir -p $(@D)
	$(SAY) KERNELS $*
	$(Q)PATH=$(CLANG_DIR):$$PATH $(CLANG) -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=$* \
	    -mcode-object-version=4 -nogpuinc -nogpulib $(GPU_FLAGS) -o $@ backend-hip/kernels/kernels.hip

# for a device that none of the code objects fits: hip_compile.c
$G/sources: $(GPU_SOURCES)
	@mkdir -p $(@D)
	$(Q)for f in $^; do printf '%s\0' $$f; cat $$f; printf '\0'; done >$@

# what opt4gptq-bench --ablation prints where there is no GPU; empty without llvm-objdump-19
$G/gfx906.tsv: $G/gfx906.co scripts/kernel-table
	$(Q)scripts/kernel-table --tsv $(G:/gpu=) >$@

$G/%.ptx: $(GPU_SOURCES) Makefile
	@mkdir -p $(@D)
	$(SAY) KERNELS $*
	$(Q)$(CLANG) -x cuda --cuda-device-only --cuda-gpu-arch=$* --cuda-feature=+$(PTX_$*) -nocudainc -nocudalib --cuda-path=/nonexistent \
	    $(GPU_FLAGS) -S -o $@ backend-hip/kernels/kernels.hip

$B/fast/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< without sanitizers
	$(Q)$(CC) $(filter-out -fsanitize%,$(ALL_CFLAGS)) -MMD -MP -c -o $@ $<

$B/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# --- tests: each program prints its own results; scripts/test sums them up
TESTS := asm checkop fuzz e2e cli convert files eval bench step batch batch_faults convert_faults stop text gpu
UNITS := $(patsubst tests/%.c,%,$(wildcard tests/unit_*.c))
TEST_PROGRAMS := $(addprefix $B/tests/,$(TESTS) $(UNITS))

$B/tests/checkop: $(patsubst %.c,$B/%.o,$(wildcard tests/checkop*.c)) $B/bench/batches.o $(CORE) $(CPU_ALL) $(HIP)
$(addprefix $B/tests/,fuzz e2e cli convert files bench batch stop text eval gpu): $B/tests/%: $B/tests/%.o $B/tests/process.o $(CORE)
$B/tests/step: $B/tests/step.o $B/tests/process.o $(filter-out $B/bench/main.o,$(BENCH)) $(CORE) $(CPU) $(HIP)
$B/tests/cli: $B/cli/llama_names.o # they try every name
$B/tests/bench: $B/bench/llama_bench_names.o
$B/tests/asm: $B/tests/asm.o | $(CPU_ALL) $B/tests/asm_sample.o
# The system calls and allocations of the batch mode go through the test's own.
wrapped := open write pwrite ftruncate fdatasync fsync rename unlink clock_gettime malloc calloc realloc
$B/tests/batch_faults: ALL_LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,$(wrapped))
$B/tests/batch_faults: $B/tests/batch_faults.o $B/tests/process.o $(CORE) $(CPU) $(HIP) $(filter-out $B/cli/main.o,$(RUN))
convert_wrapped := malloc calloc realloc strdup strndup realpath pthread_create open access pread pwrite fallocate ftruncate fsync linkat rename
$B/tests/convert_faults: ALL_LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,$(convert_wrapped))
$B/tests/convert_faults: $B/tests/convert_faults.o $(CORE) $(filter-out $B/convert/main.o,$(CONVERT))
$(addprefix $B/tests/,$(TESTS)):
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$B/tests/unit_%.o: ALL_CFLAGS += -DSHARED_DIR='"$(SHARED)"'
# this one counts allocations within a step
$B/tests/unit_scheduler: ALL_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=mmap
# this one fails every allocation once
$B/tests/unit_allocation_text: ALL_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
$B/tests/unit_%: $B/tests/unit_%.o $(CORE) $(CPU) $(HIP) $(filter-out $B/convert/main.o,$(CONVERT)) $(filter-out $B/cli/main.o,$(RUN)) \
    $(filter-out $B/bench/main.o,$(BENCH))
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

# --- the gfx906 interpreter: a libamdhip64 that executes code objects on the CPU; see tests/gfx906/gfx906.h. Its loops
# over lanes are compiled twice; the second copy is for processors with AVX2, FMA and F16C.
GFX      := $B/libamdhip64-gfx906.so
LANES    := int f32 f16
GFX_OBJS := $(patsubst %.c,$B/%.o,$(filter-out $(LANES:%=tests/gfx906/lanes_%.c),$(wildcard tests/gfx906/*.c))) \
            $(LANES:%=$B/tests/gfx906/lanes_%_base.o)
GFX_O    := $(if $(SAN),-O1,-O3)
GFX_CC    = $(CC) $(ALL_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c
ifeq ($(MACHINE),x86_64)
GFX_OBJS += $(LANES:%=$B/tests/gfx906/lanes_%_v3.o)
endif
$(filter-out $B/tests/gfx906/lanes_%,$(GFX_OBJS)): ALL_CFLAGS += $(GFX_O) -fPIC -fvisibility=hidden
$B/tests/gfx906/lanes_%_base.o: tests/gfx906/lanes_%.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< for any processor
	$(Q)$(GFX_CC) $(GFX_O) -DLANE_TABLE=lanes_$*_base -o $@ $<
$B/tests/gfx906/lanes_%_v3.o: tests/gfx906/lanes_%.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< for AVX2
	$(Q)$(GFX_CC) $(GFX_O) -mavx2 -mfma -mf16c -DLANE_TABLE=lanes_$*_v3 -o $@ $<
$(GFX): $(GFX_OBJS)
	$(SAY) LD $@
	$(Q)$(CC) $(filter-out -pie,$(ALL_LDFLAGS)) -shared -o $@ $^ -lm

# its tests; kernels of a compiler are part of them where clang-19 is installed (it finds its linker by PATH)
GFX_TEST := $B/tests/gfx906-test
GFX_CO   := $(if $(shell command -v clang-19),$(foreach o,O3 O0,$B/tests/gfx906/kernels-$o.co))
$(GFX_TEST): $(patsubst %.c,$B/%.o,$(wildcard tests/gfx906/test/*.c)) | $(GFX) $(GFX_CO)
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -ldl -lm
$B/tests/gfx906/kernels-%.co: tests/gfx906/test/kernels.hip Makefile
	@mkdir -p $(@D)
	$(SAY) CLANG $@
	$(Q)PATH=/usr/lib/llvm-19/bin:$$PATH clang-19 -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=gfx906 \
	  -mcode-object-version=4 -nogpuinc -nogpulib -$* -o $@ $<

# the kernels as host code behind a runtime library that opt4gptq-run and checkop load; for the machine that it is built on
FIBERS := $B/tests/libhip-fibers.so
$(FIBERS): tests/fibers.c tests/fiber_matrix.c tests/fiber_kernels.c $(wildcard tests/fiber*.h) $(GPU_SOURCES) Makefile
	@mkdir -p $(@D)
	$(SAY) CC $@
	$(Q)$(CC) $(ALL_CFLAGS) -O2 -march=native -fno-strict-aliasing -fPIC -shared $(filter-out -pie,$(ALL_LDFLAGS)) -o $@ $(filter %.c,$^) -lm
# the same as CUDA's driver, for those with NVIDIA's matrix instructions: of sm_80, of sm_90a
FIBERS_CUDA := $B/tests/libcuda-fibers-80.so $B/tests/libcuda-fibers-90.so
$(FIBERS_CUDA): $B/tests/libcuda-fibers-%.so: tests/fibers.c tests/fiber_matrix.c tests/fiber_cuda.c tests/fiber_kernels.c \
    $(wildcard tests/fiber*.h) $(GPU_SOURCES) Makefile
	@mkdir -p $(@D)
	$(SAY) CC $@
	$(Q)$(CC) $(ALL_CFLAGS) -DFIBERS_CUDA=$* -O2 -march=native -fno-strict-aliasing -fPIC -shared $(filter-out -pie,$(ALL_LDFLAGS)) -o $@ $(filter %.c,$^) -lm

# The rungs of AVX-512, VNNI and AMX compiled for processors with AVX2 (tests/emulated), in checkop and in a whole program, so that
# they are tested on every machine. Not sanitized: too slow. -Og: -O2 takes gcc ten times as long.
ifeq ($(MACHINE)$(SAN),x86_64)
EMULATED := avx512 vnni amx
EMULATED_OBJS := $(EMULATED:%=$B/tests/emulated/%.o) $(filter-out $(EMULATED:%=$B/backend-cpu/%.o),$(CPU))
EMULATED_PROGRAMS := $B/tests/checkop-emulated $B/tests/run-emulated
$B/tests/emulated/%.o: backend-cpu/%.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< emulated
	$(Q)$(CC) $(ALL_CFLAGS) -Og -g0 -mavx2 -mfma -mf16c -Wno-psabi -Itests/emulated -MMD -MP -c -o $@ $<
$B/tests/checkop-emulated: $(patsubst %.c,$B/%.o,$(wildcard tests/checkop*.c)) $B/bench/batches.o $(CORE) $(EMULATED_OBJS) $(HIP)
$B/tests/run-emulated: $(RUN) $(CORE) $(EMULATED_OBJS) $(HIP)
$(EMULATED_PROGRAMS):
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
endif

test:
	@scripts/deps --test
	@$(MAKE) --no-print-directory -j$$(nproc) $(PROGRAMS) $(TEST_PROGRAMS) $(EMULATED_PROGRAMS) $(FIBERS) $(FIBERS_CUDA) $(GFX) $(GFX_TEST)
	@scripts/test $B $(SHARED) $(T)

ARM := build-arm64
test-arm64:
	@if scripts/deps --arm64; then \
	    $(MAKE) --no-print-directory -j$$(nproc) $(PROGRAMS) $B/tests/asm && \
	    $(MAKE) --no-print-directory -j$$(nproc) CC=aarch64-linux-gnu-gcc B=$(ARM) $(ARM)/opt4gptq-run $(ARM)/tests/checkop $(ARM)/tests/asm_sample.o && \
	    tests/arm64.sh $B $(ARM); \
	else \
	    echo "SKIP arm64: the packages for a cross build could not be installed"; echo "arm64: 0 passed, 0 failed, 1 skipped"; \
	fi

demo:
	@scripts/deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(PROGRAMS)
	$B/opt4gptq-convert models/demo $B/demo.safetensors
	$B/opt4gptq-run -m $B/demo.safetensors -p "Once upon a time there was" -n 64 --temp 0

static:
	@$(MAKE) --no-print-directory -j$$(nproc) STATIC=1 all

install: $(PROGRAMS)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(PROGRAMS)

clean:
	rm -rf build build-san build-static build-arm64

.PHONY: all test test-arm64 demo static install clean
.SECONDARY:
-include $(shell find $B -name '*.d' 2>/dev/null)
