# make            build/opt4gptq-run and build/opt4gptq-convert
# make demo       build, convert the demo checkpoint, stream a completion
# make test       everything; SAN=1 builds it with AddressSanitizer and UBSan (into build-san/)
# make install PREFIX=/usr/local    make clean
CC      ?= gcc
PREFIX  ?= /usr/local
B       := $(if $(SAN),build-san,build)
VERSION := 0.1
CFLAGS  ?= -O2 -g
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -ffp-contract=off -fno-math-errno -pthread -I. \
              -DOPT4GPTQ_VERSION='"$(VERSION)"' $(CFLAGS) $(if $(SAN),-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
LDFLAGS += -pthread $(if $(SAN),-fsanitize=address,undefined)
# Static where Debian ships the archive, so that the binary needs nothing but libc and libm on the node it is copied to.
LIBS    := -Wl,-Bstatic -ljansson -lpcre2-8 -lutf8proc -lz -Wl,-Bdynamic -lm

src = $(patsubst %.c,$B/%.o,$(sort $(wildcard $(1)/*.c)))
CORE    := $(call src,core)
CPU     := $(call src,backend-cpu)
RUN     := $(call src,cli)
CONVERT := $(call src,convert)

ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
ifeq ($(ARCH),x86_64)
$B/backend-cpu/%_avx2.o: ALL_CFLAGS += -mavx2 -mfma -mf16c
endif

all: $B/opt4gptq-run $B/opt4gptq-convert

$B/opt4gptq-run: $(RUN) $(CORE) $(CPU)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)
$B/opt4gptq-convert: $(CONVERT) $(CORE)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$B/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

clean:
	rm -rf build build-san

.PHONY: all clean
-include $(shell find $B -name '*.d' 2>/dev/null)
