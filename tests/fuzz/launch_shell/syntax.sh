f() { p "$1" ${X:-${Y:=3}} $(( (A+B)*2 )); }
sbatch <<-E
	#SBATCH -N 2
	srun bash -c "f ${A[@]%x*} \$Z"
	E
case $A in a|b) f 1;; *) for i in 1 2; do f $i; done;; esac
[[ -n $A && ! $B == c* ]] || x `date` <<< y
