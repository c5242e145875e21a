# backend-hip/gpu.mk: the GPU kernels. One source, a code object for each AMD architecture and PTX for NVIDIA, embedded in opt4gptq-run.
# Without clang-19 the backend is built without them and says so.
ifndef STATIC
CLANG       := $(shell command -v clang-19)
endif
# by ccache where CC is by it
CCACHED     := $(if $(filter %/ccache,$(realpath $(shell command -v $(firstword $(CC))))),ccache)
CLANG_DIR   := $(if $(CLANG),$(dir $(shell readlink -f $(CLANG))))
GPU_ARCHS   := gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1201
# for any chip of a family, where the runtime knows code object version 6, which clang-19 warns of: tried last
GENERICS    := gfx9-generic gfx10-3-generic gfx11-generic gfx12-generic
PTX_ARCHS   := sm_90a sm_80 sm_70
PTX_sm_70   := ptx63
PTX_sm_80   := ptx78
PTX_sm_90a  := ptx80
GPU_SOURCES := $(wildcard backend-hip/kernels/*.hip backend-hip/kernels/*.h backend-hip/kernels/*/*)
NOT_AMD     := $(addprefix backend-hip/kernels/,hopper/% host/% nvidia/% args.h kernel_list.h)
GPU_FLAGS   := -O3 -ffp-contract=off -fno-strict-aliasing -Wall -Wextra -Werror -Wno-unused-function -I.
# an image depends on the files that it includes
GPU_DEPS     = -MMD -MP -MF $@.d -MT $@
# a sanitized build has no kernels of its own
G           := $(if $(SAN),build,$B)/gpu
IMAGES      := $(if $(CLANG),$G/amd.xz $G/nvidia.xz $G/sources.xz)
ifdef CLANG
$B/backend-hip/runtime/hip_images.o: ALL_CFLAGS += -DHIP_IMAGES='"$G"'
$B/backend-hip/runtime/hip_images.o: $(IMAGES) $G/gfx906.tsv
ifdef SAN
$B/backend-hip/runtime/hip_images.o: | $B/gpu
$B/gpu:
	@mkdir -p $B
	$(Q)ln -s ../$G $@
endif
else ifndef STATIC
all: no-kernels
no-kernels: ; @echo 'note: no clang-19: the GPU kernels are left out of this build (scripts/deps --hip installs it)'
endif

# clang finds the linker of its own version by PATH only. No id of the compilation: it is made of the path, and nothing here needs one.
$G/%.co: backend-hip/kernels/kernels.hip backend-hip/gpu.mk
	@mkdir -p $(@D)
	$(SAY) KERNELS $*
	$(Q)PATH=$(CLANG_DIR):$$PATH $(CCACHED) $(CLANG) -c -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=$* \
	    $(if $(filter %-generic,$*),-mcode-object-version=6,-mcode-object-version=4) -nogpuinc -nogpulib -fuse-cuid=none \
	    $(GPU_FLAGS) $(if $(filter %-generic,$*),-w) $(GPU_DEPS) -o $@ backend-hip/kernels/kernels.hip

# As they lie in the program: all images of a vendor in one stream, since they are much alike, each behind a line with its size
# and its crc32 (the end of a gzip file has it); in the order of hip_images.c. PTX without comments and indentation.
$G/%.text: $G/%.ptx scripts/relative-registers
	$(Q)sed -E 's,[ \t]*//.*,,; s/^[ \t]+//; /^$$/d' $< >$@.plain
	$(Q)scripts/relative-registers $@.plain >$@
$G/amd.xz: $(GPU_ARCHS:%=$G/%.co) $(GENERICS:%=$G/%.co)
$G/amd.xz: XZ_FOR := ,lc=0,lp=2,pb=2# words of 4 bytes
$G/nvidia.xz: $(PTX_ARCHS:%=$G/%.text)
$G/nvidia.xz: XZ_FOR := ,lc=4,lp=0,pb=0# text
$G/sources.xz: $G/sources
$(IMAGES): backend-hip/gpu.mk
	$(Q)for f in $(filter-out %.mk,$^); do echo $$(stat -c %s $$f) $$(gzip -1c $$f | tail -c 8 | od -An -N4 -tx4); cat $$f; done | xz --lzma2=preset=9e$(XZ_FOR) -c >$@

# for a device of AMD's that none of the code objects fits: hip_compile.c
$G/sources: $(filter-out $(NOT_AMD),$(GPU_SOURCES))
	@mkdir -p $(@D)
	$(Q)for f in $^; do printf '%s\0' $$f; cat $$f; printf '\0'; done >$@

# what opt4gptq-bench --ablation prints where there is no GPU; empty without llvm-objdump-19
$G/gfx906.tsv: $G/gfx906.co scripts/kernel-table
	$(Q)scripts/kernel-table --tsv $(G:/gpu=) >$@

$G/%.ptx: backend-hip/kernels/kernels.hip backend-hip/gpu.mk
	@mkdir -p $(@D)
	$(SAY) KERNELS $*
	$(Q)$(CCACHED) $(CLANG) -x cuda --cuda-device-only --cuda-gpu-arch=$* --cuda-feature=+$(PTX_$*) -nocudainc -nocudalib --cuda-path=/nonexistent \
	    $(GPU_FLAGS) $(GPU_DEPS) -S -o $@ backend-hip/kernels/kernels.hip

-include $(wildcard $G/*.d)
