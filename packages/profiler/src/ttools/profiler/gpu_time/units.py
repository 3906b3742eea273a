"""Classification of NVIDIA's instructions by the unit of a multiprocessor that executes them."""

from __future__ import annotations

from ttools.core.compilation.machine_code import Instruction

#: Opcodes by unit.
_UNITS = {
    name: unit
    for unit, names in {
        "float": "FFMA FADD FMUL FFMA2 FADD32I FMUL32I FFMA32I HFMA2 HADD2 HMUL2 HSET2 HSETP2",
        "double": "DFMA DADD DMUL DSETP DMNMX",
        "function": "MUFU",
        "conversion": "F2F F2I I2F I2FP F2IP F2FP FRND I2I",
        "product": "IMAD IMAD32I IMUL IDP IDP4A",
        "add": "VIADD IADD IADD3",
        "move": "MOV MOV32I CS2R S2R LDC P2R R2P",
        "uniform": (
            "UIMAD UMOV UFLO UPLOP3 R2UR S2UR CS2UR ULDC LDCU UIADD3 ULEA ULOP3 USHF USEL UISETP "
            "USGXT UPRMT UBMSK UBREV UP2UR UR2UP UPOPC UVIADD UVIMNMX"
        ),
        "load": "LDG LD",
        "copy": "LDGSTS UTMALDG UBLKCP",
        "store": "STG ST UTMASTG",
        "shared load": "LDS LDSM",
        "shared store": "STS STSM",
        "shared atomic": "ATOMS",
        "vote": "VOTE VOTEU POPC MATCH REDUX",
        "local": "LDL STL",
        "atomic": "RED REDG ATOM ATOMG",
        "shuffle": "SHFL",
        "matrix": "HMMA IMMA QMMA DMMA HGMMA QGMMA IGMMA",
        "barrier": "BAR WARPSYNC SYNCS BSYNC WARPGROUP DEPBAR LDGDEPBAR MEMBAR FENCE CCTL ERRBAR",
        "control": "BRA EXIT NOP BRX RET CALL BREAK BSSY",
        "integer": (
            "LOP3 LEA SHF SHL SHR SEL FSEL FSETP FMNMX FSET ISETP IABS IMNMX VIMNMX VIADDMNMX "
            "VIMNMX3 FMNMX3 PRMT SGXT BMSK BREV FLO PLOP3 VABSDIFF FCHK FSWZADD LEPC MOVM ELECT "
            "ACQBULK PREEXIT YIELD NANOSLEEP"
        ),
    }.items()
    for name in names.split()
}


def unit_of(instruction: Instruction) -> str:
    """Return the unit that executes an instruction; `other` if the instruction is unknown."""
    if instruction.opcode == "HFMA2.MMA":
        return "float"
    return _UNITS.get(instruction.name, "other")
